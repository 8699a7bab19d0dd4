/* Random numbers: the Mersenne Twister, and samples that are equal to PyTorch's on the CPU. */

typedef struct { /* as PyTorch keeps its state */
    uint64_t seed;
    int32_t left, seeded; /* words left before the next twist, and one */
    uint64_t next, words[624];
    double unused_x, normal, unused_rho; /* normal: the second of a pair, kept for the next call */
    int32_t has_normal, unused_float[3];
} generator;

static void twist(generator *g) {
    for (int i = 0; i < 624; i++) {
        const uint32_t after = (uint32_t)g->words[(i + 1) % 624];
        const uint32_t mixed = ((uint32_t)g->words[i] & 0x80000000u) | (after & 0x7FFFFFFFu);
        g->words[i] = g->words[(i + 397) % 624] ^ mixed >> 1 ^ (after & 1 ? 0x9908B0DFu : 0);
    }
}

static uint32_t random_word(generator *g) {
    uint32_t position = (uint32_t)(625 - g->left), y;
    if (position == 624) twist(g), position = 0;
    y = (uint32_t)g->words[position++];
    g->left = (int32_t)(625 - position);
    g->next = position % 624;
    y ^= y >> 11;
    y ^= y << 7 & 0x9D2C5680u;
    y ^= y << 15 & 0xEFC60000u;
    return y ^ y >> 18;
}

static uint64_t random_long(generator *g) {
    const uint64_t high = random_word(g);
    return high << 32 | random_word(g);
}

static float fraction_f32(generator *g) { return (float)(random_word(g) & 0xFFFFFF) * 0x1p-24f; }

static double fraction_f64(generator *g) {
    return (double)(random_long(g) & UINT64_C(0x1FFFFFFFFFFFFF)) * 0x1p-53;
}

static inline float fused_f32(float a, float b, float c) { return fmaf(a, b, c); }

static inline double fused_f64(double a, double b, double c) { return fma(a, b, c); }

static void uniform_KIND(generator *g, T *y, int64_t count, T low, T high) {
    for (int64_t i = 0; i < count; i++) {
        const T x = fused_KIND(fraction_KIND(g), high - low, low);
        y[i] = x == high ? low : x; /* rounding may have reached the open end */
    }
}

static void bernoulli_KIND(generator *g, T *y, int64_t count, uint64_t limit) {
    for (int64_t i = 0; i < count; i++)
        y[i] = (random_long(g) & UINT64_C(0x1FFFFFFFFFFFFF)) < limit;
}

static void bernoulli_each_KIND(generator *g, const T *p, T *y, int64_t count, fault *first,
                                int code) {
    for (int64_t i = 0; i < count; i++) {
        y[i] = fraction_KIND(g) < p[i];
        if (!(p[i] >= 0 && p[i] <= 1) && !first->code) first->code = code, first->position = i;
    }
}

static double normal_one(generator *g) {
    double u, v, radius, angle;
    if (g->has_normal) {
        g->has_normal = 0;
        return g->normal;
    }
    u = fraction_f64(g);
    v = fraction_f64(g);
    radius = sqrt(-2 * log1p(-v));
    angle = 6.283185307179586 * u;
    g->normal = radius * sin(angle);
    g->has_normal = 1;
    return radius * cos(angle);
}

static void normal_few_KIND(generator *g, T *y, int64_t count, double mean, double std) {
    for (int64_t i = 0; i < count; i++) y[i] = (T)fma(normal_one(g), std, mean);
}

static void log_normal_KIND(generator *g, T *y, int64_t count, double mean, double std) {
    for (int64_t i = 0; i < count; i++) y[i] = (T)exp(fma(normal_one(g), std, mean));
}

static float cephes_log(float x) {
    static const float c[] = {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                              1.4249322787e-1f,  -1.6668057665e-1f, 2.0000714765e-1f,
                              -2.4999993993e-1f, 3.3333331174e-1f};
    const int32_t bits = bits_f32_i32(x), e = (bits - 0x3F3504F3) >> 23;
    const float m = bits_i32_f32((int32_t)((uint32_t)bits - ((uint32_t)e << 23))) - 1.0f;
    const float square = m * m;
    float y = 7.0376836292e-2f;
    for (int i = 0; i < 8; i++) y = fmaf(y, m, c[i]);
    y = fmaf(y * m, square, (float)e * -2.12194440e-4f) - square * 0.5f;
    return m + y + (float)e * 0.693359375f;
}

static void normal_pair_f32(float *u, float *v) {
    const float radius = sqrtf(cephes_log(1.0f - *u) * -2.0f);
    const int32_t quarter = (int32_t)(*v * 4.0f + 0.5f);
    const float n = (float)quarter;
    float x = *v * 6.2831855f, square, cosine, sine;
    x = fmaf(n, -1.5703125f, x);
    x = fmaf(n, -4.837512969970703e-4f, x);
    x = fmaf(n, -7.549789954891882e-8f, x);
    square = x * x;
    cosine = fmaf(fmaf(square, 2.443315711809948e-5f, -1.388731625493765e-3f), square,
                  4.166664568298827e-2f) * square;
    cosine = fmaf(cosine, square, square * -0.5f) + 1.0f;
    sine = fmaf(fmaf(square, -1.9515295891e-4f, 8.3321608736e-3f), square, -1.6666654611e-1f);
    sine = fmaf(sine * square, x, x);
    *u = (quarter & 1 ? sine : cosine) * ((quarter + 1) & 2 ? -radius : radius);
    *v = (quarter & 1 ? cosine : sine) * (quarter & 2 ? -radius : radius);
}

static void normal_pair_f64(double *u, double *v) {
    const double radius = sqrt(log(1 - *u) * -2), angle = *v * 6.283185307179586;
    *u = cos(angle) * radius;
    *v = sin(angle) * radius;
}

static void normal_KIND(generator *g, T *y, int64_t count, T mean, T std) {
    for (int64_t i = 0; i < count; i++) y[i] = fraction_KIND(g);
    for (int64_t block = 0; block + 16 <= count; block += 16)
        for (int64_t i = block; i < block + 8; i++) normal_pair_KIND(y + i, y + i + 8);
    if (count % 16) { /* sixteen fresh samples are the last ones */
        T *last = y + count - 16;
        for (int i = 0; i < 16; i++) last[i] = fraction_KIND(g);
        for (int i = 0; i < 8; i++) normal_pair_KIND(last + i, last + i + 8);
    }
    for (int64_t i = 0; i < count; i++) y[i] = fused_KIND(y[i], std, mean);
}

static void exponential_KIND(generator *g, T *y, int64_t count, double rate) {
    for (int64_t i = 0; i < count; i++)
        y[i] = (T)(0.0 - log(1 - fraction_f64(g)) * (1 / rate));
}

static void cauchy_KIND(generator *g, T *y, int64_t count, double median, double sigma) {
    for (int64_t i = 0; i < count; i++)
        y[i] = (T)fma(tan(3.141592653589793 * (fraction_f64(g) - 0.5)), sigma, median);
}

static void geometric_KIND(generator *g, T *y, int64_t count, double p) {
    for (int64_t i = 0; i < count; i++) y[i] = (T)ceil(log(fraction_f64(g)) / log1p(-p));
}

static void integers_KIND(generator *g, T *y, int64_t count, int64_t first, uint64_t span) {
    for (int64_t i = 0; i < count; i++) {
        const uint64_t word = span < UINT64_C(1) << 28 ? random_word(g) : random_long(g);
        y[i] = (T)(int64_t)((uint64_t)first + word % span);
    }
}

static void permutation_KIND(generator *g, T *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = (T)i;
    for (int64_t i = 0; i + 1 < count; i++) {
        const int64_t j = i + (int64_t)(random_word(g) % (uint64_t)(count - i));
        const T other = y[j];
        y[j] = y[i];
        y[i] = other;
    }
}
