/* Functions that exported programs are made with: each is copied into the files that call it. */

static inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static inline int64_t floor_mod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

static inline float widen_bf16(uint16_t x) { return bits_u32_f32((uint32_t)x << 16); }

static inline uint16_t narrow_bf16(float x) {
    const uint32_t bits = bits_f32_u32(x);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline float round_bf16(float x) { return widen_bf16(narrow_bf16(x)); }

static inline float widen_f16(uint16_t x) {
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, size = (uint32_t)(x & 0x7FFF) << 13;
    if (size >= 0xF800000) return bits_u32_f32(sign | size | 0x7F800000);
    return bits_u32_f32(sign | bits_f32_u32(bits_u32_f32(size) * 0x1p112f));
}

static inline uint16_t narrow_f16(float x) {
    const uint32_t bits = bits_f32_u32(x), size = bits & 0x7FFFFFFF, sign = (bits ^ size) >> 16;
    if (x != x) return (uint16_t)(sign | 0x7E00);
    if (size >= 0x47800000) return (uint16_t)(sign | 0x7C00);
    if (size < 0x38800000) /* a denormal number: 1/2 pushes what is too fine out */
        return (uint16_t)(sign | (bits_f32_u32(bits_u32_f32(size) + 0.5f) - 0x3F000000));
    return (uint16_t)(sign | (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13);
}

static inline float round_f16(float x) { return widen_f16(narrow_f16(x)); }

static int64_t checked(int64_t index, int64_t size, fault *first, int code) {
    if (index >= 0 && index < size) return index;
    if (!first->code) first->code = code, first->position = index;
    return 0;
}

static void require(const int64_t *count, const uint8_t *holds, int64_t *after, fault *first,
                    int code) {
    *after = *count + 1;
    if (!*holds && !first->code) first->code = code;
}

static inline float multiply_add_f32(float a, float b, float c) {
#ifdef FP_FAST_FMAF
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

static inline double multiply_add_f64(double a, double b, double c) {
#ifdef FP_FAST_FMA
    return fma(a, b, c);
#else
    return a * b + c;
#endif
}
