// The vector vocabulary of the kernels, in plain C++: two 64-bit or four 32-bit elements.
//
// What every simd_*.h gives: U64, U32, F32, F64 with operators, shifts, fma, select by a mask, and
// the few moves between lanes that put draws in order. kernels.inl is written in it alone. Here
// every operation is a loop that compilers turn into the vectors that every CPU of the architecture
// has.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "software_fma.h"

namespace {

constexpr int LANES = 2;  // 64-bit elements in a vector
constexpr const char* SIMD_NAME = "baseline";
// The tile of sums that a matrix product holds in registers: rows, and vectors a row.
constexpr int TILE_ROWS = 4, TILE_VECTORS = 2;

template <class T, int N>
struct Vector {
  T v[N];
};
using U64 = Vector<uint64_t, LANES>;
using U32 = Vector<uint32_t, 2 * LANES>;
using F32 = Vector<float, 2 * LANES>;
using F64 = Vector<double, LANES>;
using Mask32 = Vector<bool, 2 * LANES>;
using Mask64 = Vector<bool, LANES>;

template <class To, class From, class Operation, int N>
inline Vector<To, N> map(const Vector<From, N>& a, Operation operation) {
  Vector<To, N> result;
  for (int i = 0; i < N; ++i) result.v[i] = static_cast<To>(operation(a.v[i]));
  return result;
}

template <class To, class From, class Operation, int N>
inline Vector<To, N> map(const Vector<From, N>& a, const Vector<From, N>& b, Operation operation) {
  Vector<To, N> result;
  for (int i = 0; i < N; ++i) result.v[i] = static_cast<To>(operation(a.v[i], b.v[i]));
  return result;
}

template <class To, class From, int N>
inline Vector<To, N> same_bits(const Vector<From, N>& a) {
  static_assert(sizeof(To) == sizeof(From));
  Vector<To, N> result;
  memcpy(&result, &a, sizeof result);
  return result;
}

template <class V, class T>
inline V splat(T value) {
  V result;
  for (auto& element : result.v) element = value;
  return result;
}
inline U64 load(const uint64_t* p) {
  U64 result;
  memcpy(&result, p, sizeof result);
  return result;
}
inline F32 load(const float* p) {
  F32 result;
  memcpy(&result, p, sizeof result);
  return result;
}
inline F64 load(const double* p) {
  F64 result;
  memcpy(&result, p, sizeof result);
  return result;
}
inline void store(void* p, const U64& a) { memcpy(p, &a, sizeof a); }
inline void store(float* p, const F32& a) { memcpy(p, &a, sizeof a); }
inline void store(double* p, const F64& a) { memcpy(p, &a, sizeof a); }
constexpr bool STREAMS = false;
inline void stream(void* p, const U64& a) { store(p, a); }
inline void stream_fence() {}

#define FANIN_OPERATOR(V, T, OP)                          \
  inline V operator OP(const V& a, const V& b) {          \
    return map<T>(a, b, [](T x, T y) { return x OP y; }); \
  }
FANIN_OPERATOR(U64, uint64_t, ^)
FANIN_OPERATOR(U64, uint64_t, &)
FANIN_OPERATOR(U64, uint64_t, |)
FANIN_OPERATOR(U64, uint64_t, +)
FANIN_OPERATOR(U64, uint64_t, -)
FANIN_OPERATOR(U32, uint32_t, ^)
FANIN_OPERATOR(U32, uint32_t, &)
FANIN_OPERATOR(U32, uint32_t, |)
FANIN_OPERATOR(U32, uint32_t, +)
FANIN_OPERATOR(U32, uint32_t, -)
FANIN_OPERATOR(F32, float, +)
FANIN_OPERATOR(F32, float, -)
FANIN_OPERATOR(F32, float, *)
FANIN_OPERATOR(F64, double, +)
FANIN_OPERATOR(F64, double, -)
FANIN_OPERATOR(F64, double, *)
FANIN_OPERATOR(F64, double, /)
#undef FANIN_OPERATOR

template <int BITS, class T, int N>
inline Vector<T, N> shift_left(const Vector<T, N>& a) {
  return map<T>(a, [](T x) { return x << BITS; });
}
template <int BITS, class T, int N>
inline Vector<T, N> shift_right(const Vector<T, N>& a) {
  return map<T>(a, [](T x) { return x >> BITS; });
}
template <int BITS>
inline U32 shift_right_signed(const U32& a) {
  return map<uint32_t>(a, [](uint32_t x) { return static_cast<int32_t>(x) >> BITS; });
}
inline U32 min_unsigned(const U32& a, const U32& b) {
  return map<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return x < y ? x : y; });
}

template <class T, int N>
inline Vector<T, N> fma(const Vector<T, N>& a, const Vector<T, N>& b, const Vector<T, N>& c) {
  Vector<T, N> result;
  for (int i = 0; i < N; ++i) result.v[i] = fanin::fused_multiply_add(a.v[i], b.v[i], c.v[i]);
  return result;
}
// c - a b
template <class T, int N>
inline Vector<T, N> fnma(const Vector<T, N>& a, const Vector<T, N>& b, const Vector<T, N>& c) {
  Vector<T, N> result;
  for (int i = 0; i < N; ++i) result.v[i] = fanin::fused_multiply_add(-a.v[i], b.v[i], c.v[i]);
  return result;
}
template <class T, int N>
inline Vector<T, N> square_root(const Vector<T, N>& a) {
  return map<T>(a, [](T x) { return ::sqrt(x); });
}
template <class T, int N>
inline Vector<T, N> min(const Vector<T, N>& a, const Vector<T, N>& b) {
  return map<T>(a, b, [](T x, T y) { return x < y ? x : y; });
}
template <class T, int N>
inline Vector<T, N> max(const Vector<T, N>& a, const Vector<T, N>& b) {
  return map<T>(a, b, [](T x, T y) { return x > y ? x : y; });
}

inline F32 from_signed(const U32& a) {
  return map<float>(a, [](uint32_t x) { return static_cast<int32_t>(x); });
}
inline U32 bits(const F32& a) { return same_bits<uint32_t>(a); }
inline U64 bits(const F64& a) { return same_bits<uint64_t>(a); }
inline F32 from_bits(const U32& a) { return same_bits<float>(a); }
inline F64 from_bits(const U64& a) { return same_bits<double>(a); }

template <class T, int N>
inline Vector<bool, N> less(const Vector<T, N>& a, const Vector<T, N>& b) {
  return map<bool>(a, b, [](T x, T y) { return x < y; });
}
// The mask of the elements whose top bit is set.
inline Mask32 top_bit(const U32& a) {
  return map<bool>(a, [](uint32_t x) { return x >> 31 != 0; });
}
inline Mask64 top_bit(const U64& a) {
  return map<bool>(a, [](uint64_t x) { return x >> 63 != 0; });
}
template <class T, int N>
inline Vector<T, N> select(const Vector<bool, N>& mask, const Vector<T, N>& yes,
                           const Vector<T, N>& no) {
  Vector<T, N> result;
  for (int i = 0; i < N; ++i) result.v[i] = mask.v[i] ? yes.v[i] : no.v[i];
  return result;
}
template <int N>
inline bool all(const Vector<bool, N>& mask) {
  bool result = true;
  for (bool element : mask.v) result &= element;
  return result;
}

// x * constant mod 2^64.
template <uint64_t CONSTANT>
inline U64 multiply(const U64& x) {
  return map<uint64_t>(x, [](uint64_t element) { return element * CONSTANT; });
}

// The 32-bit halves of two vectors, side by side: element 2i is that of a[i], 2i + 1 that of b[i].
inline U32 low_words(const U64& a, const U64& b) {
  U32 result;
  for (int i = 0; i < LANES; ++i) {
    result.v[2 * i] = static_cast<uint32_t>(a.v[i]);
    result.v[2 * i + 1] = static_cast<uint32_t>(b.v[i]);
  }
  return result;
}
inline U32 high_words(const U64& a, const U64& b) {
  return low_words(shift_right<32>(a), shift_right<32>(b));
}
// The high halves of 32-bit words, those of a below those of b.
// The high word of a in the low half, under `top`, whose low half is 0.
inline U64 high_word_below(const U64& a, const U64& top) { return shift_right<32>(a) | top; }
inline U32 high_halves(const U32& a, const U32& b) {
  return map<uint32_t>(a, b, [](uint32_t x, uint32_t y) { return (x >> 16) | (y & 0xFFFF0000); });
}
// The float16 codes of float32 values, in the low half of each word: an instruction where there is
// one, else by Software::code.
template <class Software>
inline U32 float16_code(const F32& a) {
  return Software::code(a);
}
// Two float64 vectors rounded to float32, side by side in the same order.
inline F32 round_to_f32(const F64& a, const F64& b) {
  F32 result;
  for (int i = 0; i < LANES; ++i) {
    result.v[2 * i] = static_cast<float>(a.v[i]);
    result.v[2 * i + 1] = static_cast<float>(b.v[i]);
  }
  return result;
}
inline U64 as_u64(const U32& a) {
  U64 result;
  memcpy(&result, &a, sizeof result);
  return result;
}

// rows[step][lane] becomes rows[lane][step].
inline void transpose(U64 (&rows)[LANES]) {
  const U64 first = rows[0];
  rows[0].v[1] = rows[1].v[0];
  rows[1].v[0] = first.v[1];
}

// even[p] and odd[p] hold, for steps 2p and 2p + 1 side by side, the two values of each lane's
// draw. rows[lane] becomes the values of that lane in order.
inline void interleave(const F32 (&even)[LANES / 2], const F32 (&odd)[LANES / 2],
                       U64 (&rows)[LANES]) {
  for (int lane = 0; lane < LANES; ++lane) {
    const float values[4] = {even[0].v[2 * lane], odd[0].v[2 * lane], even[0].v[2 * lane + 1],
                             odd[0].v[2 * lane + 1]};
    memcpy(&rows[lane], values, sizeof values);
  }
}

}  // namespace
