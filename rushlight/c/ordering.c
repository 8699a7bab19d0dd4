/* Sorting, searching and running extremes along lines: element i of a line is `step` after i - 1. */

static int64_t line_begin(int64_t line, int64_t n, int64_t step) {
    return line / step * n * step + line % step;
}

static void sort_KIND(const T *x, T *values, int64_t *indices, int64_t *scratch, int64_t lines,
                      int64_t n, int64_t step, int descending) {
    for (int64_t line = 0; line < lines; line++) {
        const T *row = x + line_begin(line, n, step);
        int64_t *from = scratch, *to = scratch + n;
        for (int64_t i = 0; i < n; i++) from[i] = i;
        for (int64_t width = 1; width < n; width *= 2) {
            int64_t *other = from;
            for (int64_t begin = 0; begin < n; begin += 2 * width) {
                const int64_t middle = min_i64(begin + width, n);
                const int64_t end = min_i64(begin + 2 * width, n);
                int64_t a = begin, b = middle;
                for (int64_t k = begin; k < end; k++) {
                    int take = b < end;
                    if (take && a < middle) {
                        const T left = row[from[a] * step], right = row[from[b] * step];
                        take = descending ? less_KIND(left, right) : less_KIND(right, left);
                    }
                    to[k] = take ? from[b++] : from[a++];
                }
            }
            from = to;
            to = other;
        }
        for (int64_t i = 0; i < n; i++) {
            const int64_t place = line_begin(line, n, step) + i * step;
            values[place] = row[from[i] * step];
            indices[place] = from[i];
        }
    }
}

static void cummax_KIND(const T *x, T *values, int64_t *indices, int64_t lines, int64_t n,
                        int64_t step) {
    for (int64_t line = 0; line < lines; line++) {
        int64_t place = line_begin(line, n, step), best = place, index = 0;
        for (int64_t i = 0; i < n; i++, place += step) {
            if (!less_KIND(x[place], x[best])) best = place, index = i;
            values[place] = x[best];
            indices[place] = index;
        }
    }
}

static void cummin_KIND(const T *x, T *values, int64_t *indices, int64_t lines, int64_t n,
                        int64_t step) {
    for (int64_t line = 0; line < lines; line++) {
        int64_t place = line_begin(line, n, step), best = place, index = 0;
        for (int64_t i = 0; i < n; i++, place += step) {
            if (is_nan_KIND(x[place]) || x[place] <= x[best]) best = place, index = i;
            values[place] = x[best];
            indices[place] = index;
        }
    }
}

static void logcumsumexp_KIND(const T *x, T *y, int64_t lines, int64_t n, int64_t step) {
    for (int64_t line = 0; line < lines; line++) {
        int64_t place = line_begin(line, n, step);
        for (int64_t i = 0; i < n; i++, place += step) {
            const T a = i ? y[place - step] : x[place], b = x[place];
            const T top = a > b ? a : b, low = a > b ? b : a;
            if (!i || a != a)
                y[place] = a;
            else if (b != b || a == b)
                y[place] = (T)(b + (T)0.6931471805599453);
            else
                y[place] = top + (T)log1p(exp((double)(low - top)));
        }
    }
}

static void search_KIND(const T *sequence, const T *values, int64_t *y, int64_t count, int64_t n,
                        int64_t per_line, int right) {
    for (int64_t i = 0; i < count; i++) {
        const T *line = sequence + (per_line ? i / per_line * n : 0);
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (right ? !less_KIND(values[i], line[middle]) : less_KIND(line[middle], values[i]))
                low = middle + 1;
            else
                high = middle;
        }
        y[i] = low;
    }
}

static void gcd_KIND(const T *x, const T *z, T *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        T a = x[i], b = z[i];
        while (b != 0) {
            const T rest = irem_KIND(a, b);
            a = b;
            b = rest;
        }
        y[i] = a < 0 ? (T)(0 - (uint64_t)a) : a;
    }
}

static void lcm_KIND(const T *x, const T *z, T *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        T product;
        gcd_KIND(x + i, z + i, y + i, 1);
        product = (T)((uint64_t)idiv_KIND(x[i], y[i]) * (uint64_t)z[i]);
        y[i] = product < 0 ? (T)(0 - (uint64_t)product) : product;
    }
}
