# SPDX-License-Identifier: Apache-2.0
# DCP_CUDA: the toolkit's cuda.h (12.4 or newer) and nvcc, for device code.
# Sets CUDA_DIR, CUDA_CPPFLAGS, NVCC and dcp_cuda_version.
AC_DEFUN([DCP_CUDA], [
AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR],
        [CUDA toolkit, 12.4 or newer @<:@/usr/local/cuda@:>@])],
    [], [with_cuda=/usr/local/cuda])
AS_CASE([$with_cuda],
    [yes], [with_cuda=/usr/local/cuda],
    [no], [AC_MSG_ERROR([dcprel cannot be built without a CUDA toolkit])])
CUDA_DIR=$with_cuda
CUDA_CPPFLAGS="-isystem $CUDA_DIR/include"
AC_SUBST([CUDA_DIR])
AC_SUBST([CUDA_CPPFLAGS])

AC_MSG_CHECKING([for cuda.h of CUDA 12.4 or newer in $CUDA_DIR])
dcp_cuda_number=`$SED -n 's/^#define CUDA_VERSION  *//p' \
    "$CUDA_DIR/include/cuda.h" 2>/dev/null`
AS_CASE([$dcp_cuda_number],
    [[[1-9]*]], [],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([no cuda.h in $CUDA_DIR/include: install a CUDA toolkit
  (https://developer.nvidia.com/cuda-downloads), or say where it is with
  --with-cuda=DIR])])
dcp_cuda_version=`expr $dcp_cuda_number / 1000`.`expr $dcp_cuda_number % 1000 / 10`
AC_MSG_RESULT([$dcp_cuda_version])
AS_IF([test $dcp_cuda_number -lt 12040],
    [AC_MSG_ERROR([CUDA $dcp_cuda_version is too old: 12.4 is needed])])

AC_PATH_PROG([NVCC], [nvcc], [], [$CUDA_DIR/bin$PATH_SEPARATOR$PATH])
AS_IF([test -z "$NVCC"],
    [AC_MSG_ERROR([no nvcc in $CUDA_DIR/bin nor in PATH: it compiles the
  library's own kernels (Debian and Ubuntu packages of NVIDIA: cuda-nvcc-*)])])
])
