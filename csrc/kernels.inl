// The one text of the sampling kernels, written in the vocabulary of a simd_*.h.
//
// Included once by each kernels_*.cpp. A vector holds the states of LANES lanes. A pass takes the
// draws of all lanes for one vector of output each, transforms them where they are, across lanes,
// and puts each lane's results in order only at the end, packed as narrow as the output's dtype:
// one transposition whatever the dtype. The ragged ends of a lane go through the same pass, by way
// of a buffer.
//
// CHAINS groups of lanes run in one loop: a group's step waits 6 operations for its own result.
//
// Tried, and no help with AVX2: two vectors side by side through every operation. Sixteen registers
// do not hold them, and the spills cost more than the shorter waits gain. Nor stores past the
// cache: half a line at a time they take twice the time, and a line at a time, from two passes, no
// less.

namespace {

using fanin::Affine;
using fanin::Distribution;
using fanin::Dtype;
using fanin::Lanes;
using fanin::Parameters;

constexpr int CHAINS = 2;
constexpr size_t VECTOR_BYTES = 8 * LANES;

// The draws of LANES lanes.
struct Generator {
  U64 state;

  U64 next() {
    state = state ^ shift_right<12>(state);
    state = state ^ shift_left<25>(state);
    state = state ^ shift_right<27>(state);
    if (planted("multiplier_bit")) return multiply<fanin::MULTIPLIER ^ (1 << 20)>(state);
    return multiply<fanin::MULTIPLIER>(state);
  }
};

// fma(scale, value, offset), and the same held in bounds.
template <class V, class T>
struct AffineVector {
  V scale, offset, smallest, largest;

  explicit AffineVector(const Affine<T>& affine)
      : scale(splat<V>(affine.scale)),
        offset(splat<V>(affine.offset)),
        smallest(splat<V>(affine.smallest)),
        largest(splat<V>(affine.largest)) {}

  V operator()(V value) const { return fma(scale, value, offset); }
  V clamped(V value) const {
    if (planted("no_clamp")) return (*this)(value);
    return min(max((*this)(value), smallest), largest);
  }
};

// ---- Distributions.
//
// Those of float32 and narrower say what a draw gives by `pair` (two values a draw) or `single`;
// those of float64 by `vectors`: the values of the next LANES steps.

struct UniformF32 {
  static constexpr int VALUES_PER_DRAW = 2;
  AffineVector<F32, float> affine;

  explicit UniformF32(const Parameters& p) : affine(p.f32) {}

  void pair(U32 high, U32 low, F32& even, F32& odd) const {
    const F32 unit = splat<F32>(0x1p-24f);
    even = affine.clamped(from_signed(shift_right<8>(high)) * unit);
    odd = affine.clamped(from_signed(shift_right<8>(low)) * unit);
  }
};

struct NormalF32 {
  static constexpr int VALUES_PER_DRAW = 2;
  AffineVector<F32, float> affine;

  explicit NormalF32(const Parameters& p) : affine(p.f32) {}

  void pair(U32 high, U32 low, F32& even, F32& odd) const {
    F32 radius_bits = from_signed(shift_right<1>(high)) + splat<F32>(0.5f);
    if (planted("radius_of_24_bits")) {
      radius_bits = from_signed(shift_left<7>(shift_right<8>(high))) + splat<F32>(64.0f);
    }
    if (planted("radius_without_half")) radius_bits = from_signed(shift_right<1>(high));
    const F32 radius = square_root(ln<-2, 31>(radius_bits));
    F32 cosine, sine;
    cos_sin(high, low, cosine, sine);
    even = affine(radius * cosine);
    odd = affine(radius * sine);
  }
};

// The probabilities of a truncated normal at k + 1/2, one of n equal parts.
struct Probabilities {
  F64 n, half_n, step, tail_step, lower, upper, centre;

  Probabilities(const Parameters& p, double parts)
      : n(splat<F64>(parts)),
        half_n(splat<F64>(0.5 * parts)),
        step(splat<F64>(p.step)),
        tail_step(splat<F64>(p.tail_step)),
        lower(splat<F64>(p.lower)),
        upper(splat<F64>(p.upper)),
        centre(splat<F64>(p.centre)) {}

  F64 tail(F64 part) const {
    return min(fma(part, tail_step, lower), fma(n - part, tail_step, upper));
  }
  F64 from_median(F64 part) const { return fma(part - half_n, step, centre); }
};

// k + 1/2 for the 32 high bits k of a draw, or the 52 high bits: exact in float64.
template <int BITS>
inline F64 part_of(U64 draw) {
  const U64 magic = splat<U64>(uint64_t{0x433} << 52);  // 2^52 + k
  const U64 k = BITS == 32 ? high_word_below(draw, magic) : shift_right<64 - BITS>(draw) | magic;
  return from_bits(k) - splat<F64>(4503599627370495.5);
}

template <bool FAR>
struct TruncatedNormalF32 {
  static constexpr int VALUES_PER_DRAW = 1;
  AffineVector<F32, float> affine;
  Probabilities probabilities;

  explicit TruncatedNormalF32(const Parameters& p) : affine(p.f32), probabilities(p, 0x1p32) {}

  F32 single(U64 a, U64 b) const {
    const F64 part_a = part_of<32>(a), part_b = part_of<32>(b);
    const F64 tail_a = probabilities.tail(part_a), tail_b = probabilities.tail(part_b);
    const F64 centre_a = probabilities.from_median(part_a);
    const F64 centre_b = probabilities.from_median(part_b);
    if constexpr (FAR) {
      return affine.clamped(
          round_to_f32(normal_quantile(centre_a, tail_a), normal_quantile(centre_b, tail_b)));
    } else {
      return affine.clamped(
          normal_quantile(round_to_f32(centre_a, centre_b), round_to_f32(tail_a, tail_b)));
    }
  }
};

// (x >> 11) * 2^-53
inline F64 unit_interval(U64 draw) {
  // 2^84 + high 2^32
  const U64 high = high_word_below(draw, splat<U64>(uint64_t{0x453} << 52));
  const U64 low = (draw & splat<U64>(uint64_t{0xFFFFF800})) | splat<U64>(uint64_t{0x433} << 52);
  const F64 integer = (from_bits(high) - splat<F64>(0x1p84 + 0x1p52)) + from_bits(low);
  return integer * splat<F64>(0x1p-64);
}

struct UniformF64 {
  AffineVector<F64, double> affine;

  explicit UniformF64(const Parameters& p) : affine(p.f64) {}

  void vectors(Generator& generator, U64 (&rows)[LANES]) const {
    for (U64& row : rows) row = bits(affine.clamped(unit_interval(generator.next())));
  }
};

struct NormalF64 {
  AffineVector<F64, double> affine;

  explicit NormalF64(const Parameters& p) : affine(p.f64) {}

  void vectors(Generator& generator, U64 (&rows)[LANES]) const {
    for (int i = 0; i < LANES; i += 2) {
      const F64 u = splat<F64>(1.0) - unit_interval(generator.next());
      const F64 radius = square_root(ln<-2, 0>(u));
      F64 cosine, sine;
      cos_sin(generator.next(), cosine, sine);
      rows[i] = bits(affine(radius * cosine));
      rows[i + 1] = bits(affine(radius * sine));
    }
  }
};

struct TruncatedNormalF64 {
  AffineVector<F64, double> affine;
  Probabilities probabilities;

  explicit TruncatedNormalF64(const Parameters& p) : affine(p.f64), probabilities(p, 0x1p52) {}

  void vectors(Generator& generator, U64 (&rows)[LANES]) const {
    for (U64& row : rows) {
      const F64 part = part_of<52>(generator.next());
      const F64 z = normal_quantile(probabilities.from_median(part), probabilities.tail(part));
      row = bits(affine.clamped(z));
    }
  }
};

// ---- Output dtypes: the bits of a float32 rounded once, to nearest, ties to even.

struct ToFloat64 {
  static constexpr int BITS = 64;  // the float64 transforms give bits themselves
};

struct ToFloat32 {
  static constexpr int BITS = 32;
  static U32 code(F32 value) { return bits(value); }
};

struct ToBfloat16 {
  static constexpr int BITS = 16;
  static U32 code(F32 value) { return shift_right<16>(rounded(value)); }
  static U32 pair_code(F32 even, F32 odd) { return high_halves(rounded(even), rounded(odd)); }

 private:
  // The code in the high half, anything in the low one.
  static U32 rounded(F32 value) {
    const U32 b = bits(value);
    if (planted("bfloat16_cut")) return b;
    const U32 odd = shift_right<16>(b) & splat<U32>(uint32_t{1});
    return b + splat<U32>(uint32_t{0x7FFF}) + odd;
  }
};

// A format of EXPONENT_BITS and MANTISSA_BITS whose values of magnitude MAXIMUM_BITS (as float32)
// and above take the code of that magnitude.
template <int EXPONENT_BITS, int MANTISSA_BITS, uint32_t MAXIMUM_BITS>
struct ToNarrow {
  static constexpr int BITS = 1 + EXPONENT_BITS + MANTISSA_BITS;

  static U32 code(F32 value) {
    constexpr int DROPPED = 23 - MANTISSA_BITS;
    constexpr int BIAS = (1 << (EXPONENT_BITS - 1)) - 1;
    constexpr uint32_t REBIAS = static_cast<uint32_t>(127 - BIAS) << 23;
    constexpr uint32_t SMALLEST_NORMAL = static_cast<uint32_t>(127 - BIAS + 1) << 23;
    // Adding this float rounds a subnormal at its last bit: its own last bit is worth the same.
    constexpr uint32_t SUBNORMAL_MAGIC = static_cast<uint32_t>(127 - BIAS + 1 + DROPPED) << 23;
    const U32 b = bits(value);
    const U32 sign = b & splat<U32>(uint32_t{0x80000000});
    const U32 magnitude = min_unsigned(b ^ sign, splat<U32>(uint32_t{MAXIMUM_BITS}));
    const U32 odd = shift_right<DROPPED>(magnitude) & splat<U32>(uint32_t{1});
    const U32 half = splat<U32>((uint32_t{1} << (DROPPED - 1)) - 1 - REBIAS);
    const U32 normal = shift_right<DROPPED>(magnitude + half + odd);
    const U32 magic = splat<U32>(uint32_t{SUBNORMAL_MAGIC});
    const U32 subnormal = bits(from_bits(magnitude) + from_bits(magic)) - magic;
    const Mask32 is_subnormal = top_bit(magnitude - splat<U32>(uint32_t{SMALLEST_NORMAL}));
    return select(is_subnormal, subnormal, normal) | shift_right<32 - BITS>(sign);
  }
  static U32 pair_code(F32 even, F32 odd) { return code(even) | shift_left<BITS>(code(odd)); }
};

struct ToFloat16 : ToNarrow<5, 10, 0x47800000> {  // 65536 takes the code of infinity
  static U32 code(F32 value) { return float16_code<ToNarrow>(value); }
  static U32 pair_code(F32 even, F32 odd) { return code(even) | shift_left<16>(code(odd)); }
};
using ToFloat8E4M3FN = ToNarrow<4, 3, 0x43E00000>;  // 448, the largest
using ToFloat8E5M2 = ToNarrow<5, 2, 0x47600000>;    // 57344, the largest

// ---- A pass: one vector of output for each lane.

// The codes of one draw in each lane for two steps, side by side in 32-bit words.
template <class Output, class Transform>
inline U32 draw_codes(const Transform& transform, U64 a, U64 b) {
  if constexpr (Transform::VALUES_PER_DRAW == 2) {
    F32 even, odd;
    transform.pair(high_words(a, b), low_words(a, b), even, odd);
    return Output::pair_code(even, odd);
  } else {
    return Output::code(transform.single(a, b));
  }
}

// `draws` fill a 64-bit unit of each lane: the codes of steps i and i + DRAWS / 2 share a word's
// bits.
template <class Output, int DRAWS, int I = 0, class Transform>
inline U32 unit(const Transform& transform, const U64 (&draws)[DRAWS]) {
  constexpr int WORDS = DRAWS / 2;
  const U32 codes = draw_codes<Output>(transform, draws[I], draws[I + WORDS]);
  if constexpr (I + 1 == WORDS) {
    return codes;
  } else {
    // The rest is placed above this one; the shift is that of one draw, nested.
    return codes | shift_left<32 / WORDS>(unit<Output, DRAWS, I + 1>(transform, draws));
  }
}

template <class Output, class Transform>
inline void pass(const Transform& transform, Generator& generator, U64 (&rows)[LANES]) {
  if constexpr (Output::BITS == 64) {
    transform.vectors(generator, rows);
    transpose(rows);
  } else if constexpr (Transform::VALUES_PER_DRAW * Output::BITS == 64) {
    F32 even[LANES / 2], odd[LANES / 2];
    // Eight lanes: unrolled, the compiler would start them all at once, and spill.
#pragma GCC unroll(LANES == 8 ? 1 : 2)
    for (int i = 0; i < LANES / 2; ++i) {
      const U64 a = generator.next(), b = generator.next();
      transform.pair(high_words(a, b), low_words(a, b), even[i], odd[i]);
    }
    interleave(even, odd, rows);
  } else {
    for (U64& row : rows) {
      U64 draws[64 / (Transform::VALUES_PER_DRAW * Output::BITS)];
      for (U64& draw : draws) draw = generator.next();
      row = as_u64(unit<Output>(transform, draws));
    }
    transpose(rows);
  }
}

// ---- A kernel: all passes of all lanes.

// What of the lanes' vectors at `offset` lies between their begin and end.
__attribute__((noinline)) void store_edges(const Lanes& lanes, size_t offset, const char* vectors) {
  for (int lane = 0; lane < CHAINS * LANES; ++lane, vectors += VECTOR_BYTES) {
    const size_t begin = lanes.begin[lane] > offset ? lanes.begin[lane] - offset : 0;
    const size_t left = lanes.end[lane] > offset ? lanes.end[lane] - offset : 0;
    const size_t end = left < VECTOR_BYTES ? left : VECTOR_BYTES;
    if (begin < end) memcpy(lanes.origin[lane] + offset + begin, vectors + begin, end - begin);
  }
}

template <class Transform, class Output>
void sample(const Parameters& parameters, const Lanes& lanes) {
  const Transform transform(parameters);
  Generator generators[CHAINS];
  for (int chain = 0; chain < CHAINS; ++chain) {
    generators[chain].state = load(lanes.state + chain * LANES);
  }
  // Vectors that lie whole in every lane are stored at once; others are cut to their lane.
  size_t whole_begin = 0, whole_end = SIZE_MAX, end = 0;
  for (int lane = 0; lane < CHAINS * LANES; ++lane) {
    if (lanes.begin[lane] > 0) whole_begin = VECTOR_BYTES;
    if (lanes.end[lane] < whole_end) whole_end = lanes.end[lane];
    if (lanes.end[lane] > end) end = lanes.end[lane];
  }
  for (size_t offset = 0, bytes; offset < end; offset += bytes) {
    const bool whole = offset >= whole_begin && offset + VECTOR_BYTES <= whole_end;
    const bool streamed = STREAMS && whole && lanes.stream;
    bytes = whole ? (whole_end - offset) / VECTOR_BYTES * VECTOR_BYTES : VECTOR_BYTES;
    // Destinations of the vectors: the lanes themselves, or a buffer to cut them from.
    char buffer[CHAINS * LANES * VECTOR_BYTES];
    char* out[CHAINS * LANES];
    for (int lane = 0; lane < CHAINS * LANES; ++lane) {
      out[lane] = whole ? lanes.origin[lane] + offset : buffer + lane * VECTOR_BYTES;
    }
    for (size_t at = 0; at < bytes; at += VECTOR_BYTES) {
      for (int chain = 0; chain < CHAINS; ++chain) {
        U64 rows[LANES];
        pass<Output>(transform, generators[chain], rows);
        if (streamed) {
          for (int i = 0; i < LANES; ++i) stream(out[chain * LANES + i] + at, rows[i]);
        } else {
          for (int i = 0; i < LANES; ++i) store(out[chain * LANES + i] + at, rows[i]);
        }
      }
    }
    if (!whole) store_edges(lanes, offset, buffer);
  }
  if (STREAMS && lanes.stream) stream_fence();
}

// Values that were computed in float32, in a narrower dtype.
template <class Output, class Code>
void round_values(const float* values, size_t count, char* out) {
  constexpr size_t WIDTH = 2 * LANES;
  for (size_t i = 0; i < count; i += WIDTH) {
    const size_t size = count - i < WIDTH ? count - i : WIDTH;
    float padded[WIDTH] = {};
    memcpy(padded, values + i, size * sizeof(float));
    const U32 words = Output::code(load(padded));
    uint32_t codes[WIDTH];
    memcpy(codes, &words, sizeof codes);
    Code narrow[WIDTH];
    for (size_t j = 0; j < WIDTH; ++j) narrow[j] = static_cast<Code>(codes[j]);
    memcpy(out + i * sizeof(Code), narrow, size * sizeof(Code));
  }
}

// In the order of Dtype.
#define FANIN_ROW(F64_TRANSFORM, F32_TRANSFORM)                              \
  {sample<F64_TRANSFORM, ToFloat64>,      sample<F32_TRANSFORM, ToFloat32>,  \
   sample<F32_TRANSFORM, ToFloat16>,      sample<F32_TRANSFORM, ToBfloat16>, \
   sample<F32_TRANSFORM, ToFloat8E4M3FN>, sample<F32_TRANSFORM, ToFloat8E5M2>}

constexpr fanin::KernelTable KERNELS = {
    SIMD_NAME,
    CHAINS * LANES,
    {FANIN_ROW(UniformF64, UniformF32),
     FANIN_ROW(NormalF64, NormalF32),
     FANIN_ROW(TruncatedNormalF64, TruncatedNormalF32<false>),
     FANIN_ROW(TruncatedNormalF64, TruncatedNormalF32<true>),
     {fanin::sample_time_step_bias<Dtype::float64>, fanin::sample_time_step_bias<Dtype::float32>,
      fanin::sample_time_step_bias<Dtype::float16>, fanin::sample_time_step_bias<Dtype::bfloat16>,
      fanin::sample_time_step_bias<Dtype::float8_e4m3fn>,
      fanin::sample_time_step_bias<Dtype::float8_e5m2>}},
    product_kernels<float>(),
    product_kernels<double>(),
    {nullptr, round_values<ToFloat32, uint32_t>, round_values<ToFloat16, uint16_t>,
     round_values<ToBfloat16, uint16_t>, round_values<ToFloat8E4M3FN, uint8_t>,
     round_values<ToFloat8E5M2, uint8_t>}};

#undef FANIN_ROW

}  // namespace
