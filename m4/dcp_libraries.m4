# SPDX-License-Identifier: Apache-2.0
# DCP_LIBRARIES: what is needed as headers only (uthash; jansson and libunwind,
# which are opened when they are needed and never linked: under LD_PRELOAD their
# names would come before those of the program's own libraries), and Check for
# tests.
AC_DEFUN([DCP_LIBRARIES], [
PKG_CHECK_MODULES([JANSSON], [jansson >= 2.13], [],
    [AC_MSG_ERROR([jansson is missing (Debian, Ubuntu: libjansson-dev)])])
AC_CHECK_HEADER([uthash.h], [],
    [AC_MSG_ERROR([uthash.h is missing (Debian, Ubuntu: uthash-dev)])])
AC_CHECK_HEADER([libunwind.h], [],
    [AC_MSG_ERROR([libunwind.h is missing (Debian, Ubuntu: libunwind-dev)])])
PKG_CHECK_MODULES([CHECK], [check >= 0.12],
    [dcp_have_check=yes], [dcp_have_check=no])
AM_CONDITIONAL([HAVE_CHECK], [test $dcp_have_check = yes])
AS_IF([test $dcp_have_check = no],
    [AC_MSG_WARN([Check is missing (Debian, Ubuntu: check): the unit tests will not be run])])
])
