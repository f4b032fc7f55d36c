/* SPDX-License-Identifier: Apache-2.0 */
/* EACH(f, A<n>(type, name, ...)): f(type, name) for every argument. */
#ifndef DCP_DOORS_EACH_H
#define DCP_DOORS_EACH_H

#define EACH(f, ...) EACH_N(f, __VA_ARGS__)
#define EACH_N(f, n, ...) EACH_##n(f, __VA_ARGS__)
#define EACH_0(f, x)
#define EACH_1(f, t, a) f(t, a)
#define EACH_2(f, t, a, ...) f(t, a) EACH_1(f, __VA_ARGS__)
#define EACH_3(f, t, a, ...) f(t, a) EACH_2(f, __VA_ARGS__)
#define EACH_4(f, t, a, ...) f(t, a) EACH_3(f, __VA_ARGS__)
#define EACH_5(f, t, a, ...) f(t, a) EACH_4(f, __VA_ARGS__)
#define EACH_6(f, t, a, ...) f(t, a) EACH_5(f, __VA_ARGS__)
#define EACH_7(f, t, a, ...) f(t, a) EACH_6(f, __VA_ARGS__)
#define EACH_8(f, t, a, ...) f(t, a) EACH_7(f, __VA_ARGS__)
#define EACH_9(f, t, a, ...) f(t, a) EACH_8(f, __VA_ARGS__)
#define EACH_10(f, t, a, ...) f(t, a) EACH_9(f, __VA_ARGS__)
#define EACH_11(f, t, a, ...) f(t, a) EACH_10(f, __VA_ARGS__)
#define EACH_12(f, t, a, ...) f(t, a) EACH_11(f, __VA_ARGS__)

#endif
