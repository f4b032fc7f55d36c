/* SPDX-License-Identifier: Apache-2.0 */
/* From one list of arguments, A<count>(type, name, ...), to the pieces of C
 * that a function with these arguments needs:
 *
 *   DCP_PARAMS(args)      int a, float b      a parameter list
 *   DCP_FIELDS(args)      int a; float b;     members of a struct
 *   DCP_NAMES(args)       a, b                an argument list
 *   DCP_UNPACK(s, args)   s.a, s.b            one out of such a struct
 */
#ifndef DCP_INTERCEPT_HOOK_ARITY_H
#define DCP_INTERCEPT_HOOK_ARITY_H

/* clang-format off */
#define A0() 0, ~
#define A1(...) 1, __VA_ARGS__
#define A2(...) 2, __VA_ARGS__
#define A3(...) 3, __VA_ARGS__
#define A4(...) 4, __VA_ARGS__
#define A5(...) 5, __VA_ARGS__
#define A6(...) 6, __VA_ARGS__
#define A7(...) 7, __VA_ARGS__
#define A8(...) 8, __VA_ARGS__
#define A9(...) 9, __VA_ARGS__
#define A10(...) 10, __VA_ARGS__
#define A11(...) 11, __VA_ARGS__
#define A12(...) 12, __VA_ARGS__

#define DCP_PARAMS(...) DCP_PARAMS_N(__VA_ARGS__)
#define DCP_FIELDS(...) DCP_FIELDS_N(__VA_ARGS__)
#define DCP_NAMES(...) DCP_NAMES_N(__VA_ARGS__)
#define DCP_UNPACK(s, ...) DCP_UNPACK_N(s, __VA_ARGS__)
#define DCP_PARAMS_N(n, ...) DCP_PARAMS_##n(__VA_ARGS__)
#define DCP_FIELDS_N(n, ...) DCP_FIELDS_##n(__VA_ARGS__)
#define DCP_NAMES_N(n, ...) DCP_NAMES_##n(__VA_ARGS__)
#define DCP_UNPACK_N(s, n, ...) DCP_UNPACK_##n(s, __VA_ARGS__)

#define DCP_PARAMS_0(x) void
#define DCP_PARAMS_1(t, a) t a
#define DCP_PARAMS_2(t, a, ...) t a, DCP_PARAMS_1(__VA_ARGS__)
#define DCP_PARAMS_3(t, a, ...) t a, DCP_PARAMS_2(__VA_ARGS__)
#define DCP_PARAMS_4(t, a, ...) t a, DCP_PARAMS_3(__VA_ARGS__)
#define DCP_PARAMS_5(t, a, ...) t a, DCP_PARAMS_4(__VA_ARGS__)
#define DCP_PARAMS_6(t, a, ...) t a, DCP_PARAMS_5(__VA_ARGS__)
#define DCP_PARAMS_7(t, a, ...) t a, DCP_PARAMS_6(__VA_ARGS__)
#define DCP_PARAMS_8(t, a, ...) t a, DCP_PARAMS_7(__VA_ARGS__)
#define DCP_PARAMS_9(t, a, ...) t a, DCP_PARAMS_8(__VA_ARGS__)
#define DCP_PARAMS_10(t, a, ...) t a, DCP_PARAMS_9(__VA_ARGS__)
#define DCP_PARAMS_11(t, a, ...) t a, DCP_PARAMS_10(__VA_ARGS__)
#define DCP_PARAMS_12(t, a, ...) t a, DCP_PARAMS_11(__VA_ARGS__)

#define DCP_FIELDS_0(x) char none;
#define DCP_FIELDS_1(t, a) t a;
#define DCP_FIELDS_2(t, a, ...) t a; DCP_FIELDS_1(__VA_ARGS__)
#define DCP_FIELDS_3(t, a, ...) t a; DCP_FIELDS_2(__VA_ARGS__)
#define DCP_FIELDS_4(t, a, ...) t a; DCP_FIELDS_3(__VA_ARGS__)
#define DCP_FIELDS_5(t, a, ...) t a; DCP_FIELDS_4(__VA_ARGS__)
#define DCP_FIELDS_6(t, a, ...) t a; DCP_FIELDS_5(__VA_ARGS__)
#define DCP_FIELDS_7(t, a, ...) t a; DCP_FIELDS_6(__VA_ARGS__)
#define DCP_FIELDS_8(t, a, ...) t a; DCP_FIELDS_7(__VA_ARGS__)
#define DCP_FIELDS_9(t, a, ...) t a; DCP_FIELDS_8(__VA_ARGS__)
#define DCP_FIELDS_10(t, a, ...) t a; DCP_FIELDS_9(__VA_ARGS__)
#define DCP_FIELDS_11(t, a, ...) t a; DCP_FIELDS_10(__VA_ARGS__)
#define DCP_FIELDS_12(t, a, ...) t a; DCP_FIELDS_11(__VA_ARGS__)

#define DCP_NAMES_0(x)
#define DCP_NAMES_1(t, a) a
#define DCP_NAMES_2(t, a, ...) a, DCP_NAMES_1(__VA_ARGS__)
#define DCP_NAMES_3(t, a, ...) a, DCP_NAMES_2(__VA_ARGS__)
#define DCP_NAMES_4(t, a, ...) a, DCP_NAMES_3(__VA_ARGS__)
#define DCP_NAMES_5(t, a, ...) a, DCP_NAMES_4(__VA_ARGS__)
#define DCP_NAMES_6(t, a, ...) a, DCP_NAMES_5(__VA_ARGS__)
#define DCP_NAMES_7(t, a, ...) a, DCP_NAMES_6(__VA_ARGS__)
#define DCP_NAMES_8(t, a, ...) a, DCP_NAMES_7(__VA_ARGS__)
#define DCP_NAMES_9(t, a, ...) a, DCP_NAMES_8(__VA_ARGS__)
#define DCP_NAMES_10(t, a, ...) a, DCP_NAMES_9(__VA_ARGS__)
#define DCP_NAMES_11(t, a, ...) a, DCP_NAMES_10(__VA_ARGS__)
#define DCP_NAMES_12(t, a, ...) a, DCP_NAMES_11(__VA_ARGS__)

#define DCP_UNPACK_0(s, x)
#define DCP_UNPACK_1(s, t, a) s.a
#define DCP_UNPACK_2(s, t, a, ...) s.a, DCP_UNPACK_1(s, __VA_ARGS__)
#define DCP_UNPACK_3(s, t, a, ...) s.a, DCP_UNPACK_2(s, __VA_ARGS__)
#define DCP_UNPACK_4(s, t, a, ...) s.a, DCP_UNPACK_3(s, __VA_ARGS__)
#define DCP_UNPACK_5(s, t, a, ...) s.a, DCP_UNPACK_4(s, __VA_ARGS__)
#define DCP_UNPACK_6(s, t, a, ...) s.a, DCP_UNPACK_5(s, __VA_ARGS__)
#define DCP_UNPACK_7(s, t, a, ...) s.a, DCP_UNPACK_6(s, __VA_ARGS__)
#define DCP_UNPACK_8(s, t, a, ...) s.a, DCP_UNPACK_7(s, __VA_ARGS__)
#define DCP_UNPACK_9(s, t, a, ...) s.a, DCP_UNPACK_8(s, __VA_ARGS__)
#define DCP_UNPACK_10(s, t, a, ...) s.a, DCP_UNPACK_9(s, __VA_ARGS__)
#define DCP_UNPACK_11(s, t, a, ...) s.a, DCP_UNPACK_10(s, __VA_ARGS__)
#define DCP_UNPACK_12(s, t, a, ...) s.a, DCP_UNPACK_11(s, __VA_ARGS__)
/* clang-format on */

#endif
