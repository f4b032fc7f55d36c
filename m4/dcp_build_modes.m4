# SPDX-License-Identifier: Apache-2.0
# DCP_BUILD_MODES: sanitizers (for everything that is built) and -Werror.
# Sets SANITIZER_FLAGS, WARNING_FLAGS, SANITIZER_PRELOAD, dcp_sanitizers.
AC_DEFUN([DCP_BUILD_MODES], [
AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan],
    [build everything with AddressSanitizer])])
AC_ARG_ENABLE([ubsan], [AS_HELP_STRING([--enable-ubsan],
    [build everything with UndefinedBehaviorSanitizer])])
AC_ARG_ENABLE([tsan], [AS_HELP_STRING([--enable-tsan],
    [build everything with ThreadSanitizer])])
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror],
    [make warnings errors])])
AC_ARG_ENABLE([fuzzer], [AS_HELP_STRING([--enable-fuzzer],
    [build the fuzz targets with the fuzzer of clang])])

SANITIZER_FLAGS=
SANITIZER_PRELOAD=
dcp_sanitizers=
AS_IF([test "x$enable_asan" = xyes], [
    SANITIZER_FLAGS="-fsanitize=address"
    dcp_sanitizers="address"
    SANITIZER_PRELOAD=`$CC -print-file-name=libasan.so`])
AS_IF([test "x$enable_ubsan" = xyes], [
    SANITIZER_FLAGS="$SANITIZER_FLAGS -fsanitize=undefined -fno-sanitize-recover=undefined"
    dcp_sanitizers="$dcp_sanitizers undefined"])
AS_IF([test "x$enable_tsan" = xyes], [
    AS_IF([test "x$enable_asan" = xyes],
        [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])
    SANITIZER_FLAGS="$SANITIZER_FLAGS -fsanitize=thread"
    dcp_sanitizers="$dcp_sanitizers thread"
    SANITIZER_PRELOAD=`$CC -print-file-name=libtsan.so`])
AS_IF([test -n "$SANITIZER_FLAGS"],
    [SANITIZER_FLAGS="$SANITIZER_FLAGS -fno-omit-frame-pointer"])
FUZZER_FLAGS=
AS_IF([test "x$enable_fuzzer" = xyes], 
    [FUZZER_FLAGS="-fsanitize=fuzzer -DFUZZ_LIBFUZZER"])
AM_CONDITIONAL([FUZZER], [test "x$enable_fuzzer" = xyes])
AM_CONDITIONAL([SANITIZERS], [test -n "$SANITIZER_FLAGS"])

WARNING_FLAGS="-Wall -Wextra"
AS_IF([test "x$enable_werror" = xyes],
    [WARNING_FLAGS="$WARNING_FLAGS -Werror"])
AC_SUBST([SANITIZER_FLAGS])
AC_SUBST([SANITIZER_PRELOAD])
AC_SUBST([FUZZER_FLAGS])
AC_SUBST([WARNING_FLAGS])
])
