# SPDX-License-Identifier: Apache-2.0
# DCP_JANSSON: statically where its archive can go into a shared object, so
# that the preload brings no library into the program; else dynamically.
# Sets JANSSON_CFLAGS, JANSSON_LIBS and dcp_jansson_how.
AC_DEFUN([DCP_JANSSON], [
PKG_CHECK_MODULES([JANSSON], [jansson >= 2.13], [],
    [AC_MSG_ERROR([jansson is missing (Debian, Ubuntu: libjansson-dev)])])
AC_CACHE_CHECK([how jansson can be linked into a shared object],
    [dcp_cv_jansson_libs], [
dcp_cv_jansson_libs=$JANSSON_LIBS
dcp_save_CFLAGS=$CFLAGS
dcp_save_LIBS=$LIBS
CFLAGS="$CFLAGS -fPIC -shared -Wl,-z,text $JANSSON_CFLAGS"
LIBS="-l:libjansson.a $LIBS"
AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <jansson.h>
json_t *f(const char *text);
json_t *f(const char *text) { return json_loads(text, 0, 0); }
]])], [dcp_cv_jansson_libs=-l:libjansson.a])
CFLAGS=$dcp_save_CFLAGS
LIBS=$dcp_save_LIBS
])
JANSSON_LIBS=$dcp_cv_jansson_libs
AS_CASE([$JANSSON_LIBS],
    [*.a], [dcp_jansson_how=statically],
    [dcp_jansson_how=dynamically])
AM_CONDITIONAL([JANSSON_STATIC], [test $dcp_jansson_how = statically])
])
