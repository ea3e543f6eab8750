#include "gpu/prelude.h"

namespace appy::gpu {

const std::string_view product_header =
    R"cuda(// Sums over steps of what a row and a column make together, in tiles (passes/product.h).
#pragma once
#include "appy_device.h"

/// Tile number w: eight of them below each other, then the next ones to the right. Those in flight share what they read.
struct TileAt {
  i64 down, across;
};
APPY_INLINE TileAt tile_at(i64 w, i64 down, i64 across) {
  const i64 band = quotient(w, 8 * across), inside = w - band * 8 * across;
  const i64 high = down - 8 * band < 8 ? down - 8 * band : 8;
  const i64 right = quotient(inside, high);
  return {8 * band + inside - right * high, right};
}

/// The most columns that a row has, for all threads of a block.
template <int kBlock, class Width> APPY_INLINE i64 widest(i64 rows, Width width) {
  i64 most = 0;
  for (i64 r = threadIdx.x; r < rows; r += kBlock) {
    const i64 mine = width(r);
    if (mine > most) most = mine;
  }
  struct Most {
    i64 v0;
    static __device__ Most combine(const Most& a, const Most& b) { return a.v0 > b.v0 ? a : b; }
  };
  most = reduce_lanes<kBlock>(Most{most}).v0;
  barrier_block();
  return most;
}

/// Has a row of the tile columns from this one on? The same for all threads of a block.
template <int kBlock, class Width>
APPY_INLINE bool any_reaches(i64 first, i64 count, i64 rows, i64 column, Width width) {
  bool mine = false;
  for (i64 r = threadIdx.x; r < count; r += kBlock) mine |= first + r < rows && width(first + r) > column;
  delay();
  return __syncthreads_or(mine) != 0;
}

/// The steps of all rows and columns.
struct EvenSteps {
  i64 begin, end;
  static constexpr bool kOfRows = false, kOfColumns = false;
  __device__ __forceinline__ bool all(i64 k, int n) const { return k + n <= end; }
  __device__ __forceinline__ bool has(i64, i64 k) const { return k < end; }
};
struct StepRange {
  i64 begin, end;
};
/// The steps of rows, or columns, of which each has some of its own, without gaps between them.
template <bool kRows, class Ends> struct UnevenSteps {
  i64 begin, end;  // any of the tile's has these
  i64 low, high;   // all have these
  Ends ends;
  static constexpr bool kOfRows = kRows, kOfColumns = !kRows;
  __device__ __forceinline__ bool all(i64 k, int n) const { return low <= k && k + n <= high; }
  __device__ __forceinline__ bool has(i64 e, i64 k) const {
    const StepRange range = ends(e);
    return range.begin <= k && k < range.end;
  }
};
template <bool kRows, int kBlock, class Ends>
APPY_INLINE UnevenSteps<kRows, Ends> uneven_steps(i64 first, i64 count, i64 size, Ends ends) {
  struct Least {
    i64 v0, v1, v2, v3;
    static __device__ Least combine(const Least& a, const Least& b) {
      return {a.v0 < b.v0 ? a.v0 : b.v0, a.v1 < b.v1 ? a.v1 : b.v1, a.v2 < b.v2 ? a.v2 : b.v2,
              a.v3 < b.v3 ? a.v3 : b.v3};
    }
  };
  const i64 most = 0x7fffffffffffffff;
  Least least = {most, most, most, most};
  for (i64 e = first + threadIdx.x; e < first + count && e < size; e += kBlock) {
    const StepRange range = ends(e);
    least = Least::combine(least, {range.begin, -range.end, -range.begin, range.end});
  }
  least = reduce_lanes<kBlock>(least);
  barrier_block();
  return {least.v0, -least.v1, -least.v2, least.v3, ends};
}

/// What kSize rows, or columns, have for kDeep steps: each thread reads its part, then all put theirs into shared memory.
/// There a step is one row, 4 elements longer than it is filled: neighbours in either direction are in other banks.
template <class V, int kBlock, int kSize, int kDeep, bool kAlongSteps> struct Piece {
  static constexpr int kStride = kSize + 4, kAll = kSize * kDeep, kEach = (kAll + kBlock - 1) / kBlock;
  // Along steps: as many of them together as are one sector of memory.
  static constexpr int kRun = sizeof(V) >= 16 ? 2 : sizeof(V) >= 8 ? 4 : 8;
  V held[kEach];

  static __device__ __forceinline__ int place(int at) { return kAlongSteps ? at / kRun % kSize : at % kSize; }
  static __device__ __forceinline__ int step(int at) {
    return kAlongSteps ? at % kRun + at / (kRun * kSize) * kRun : at / kSize;
  }
  template <class Has, class Read>
  __device__ __forceinline__ void read(i64 first, i64 size, i64 k, bool all, Has has, V nothing, Read read_one) {
    // Without a condition for each, the reads are under way together.
    if (first + kSize <= size && all) {
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int at = threadIdx.x + e * kBlock;
        if (kAll % kBlock != 0 && at >= kAll) break;
        held[e] = read_one(first + place(at), k + step(at));
      }
      return;
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int at = threadIdx.x + e * kBlock;
      if (kAll % kBlock != 0 && at >= kAll) break;
      const bool inside = first + place(at) < size && has(first + place(at), k + step(at));
      held[e] = inside ? read_one(first + place(at), k + step(at)) : nothing;
    }
  }
  /// Of numbers: is one not finite?
  __device__ __forceinline__ bool any_infinite() const {
    bool any = false;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int at = threadIdx.x + e * kBlock;
      if (kAll % kBlock != 0 && at >= kAll) break;
      any |= !(fabs(held[e].v0) <= 1.7976931348623157e308);
    }
    return any;
  }
  __device__ __forceinline__ void put(V* shared) const {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int at = threadIdx.x + e * kBlock;
      if (kAll % kBlock != 0 && at >= kAll) break;
      shared[step(at) * kStride + place(at)] = held[e];
    }
  }
};

template <class V, int kCount> struct __align__(kCount * sizeof(V)) Several {
  V v[kCount];
};
template <class V, int kMost> struct Together {
  static constexpr int fits = sizeof(V) >= 16 ? 1 : sizeof(V) == 8 ? 2 : 4;
  static constexpr int count = fits < kMost ? fits : kMost;
};

/// A tile of sums: each thread has kRowsEach times kColumnsEach of them, each summed in the order of its steps.
template <int kBlock, int kRowsEach, int kColumnsEach> struct SumTile {
  static constexpr int kAcross = kBlock >= 256 ? 16 : kBlock >= 64 ? 8 : 4, kDown = kBlock / kAcross, kDeep = 16;
  static constexpr int kRows = kDown * kRowsEach, kColumns = kAcross * kColumnsEach;

  template <class S, class X, class Y, bool kXAlong, bool kYAlong, class Row, class Column, class Width, class Steps,
            class Step, class First, class Last>
  static __device__ __forceinline__ void run(i64 row0, i64 rows, i64 column0, i64 columns, Steps steps, Row row,
                                             Column column, Width width, Step step, First first, Last last) {
    typedef Piece<X, kBlock, kRows, kDeep, kXAlong> PieceX;
    typedef Piece<Y, kBlock, kColumns, kDeep, kYAlong> PieceY;
    constexpr int kX = Together<X, kRowsEach>::count, kY = Together<Y, kColumnsEach>::count;
    X* const xs = (X*)appy_shared();
    Y* const ys = (Y*)(appy_shared() + kDeep * PieceX::kStride * sizeof(X));
    const int y = threadIdx.x / kAcross, x = threadIdx.x % kAcross;
    // A thread's rows are kX neighbours each, which it loads at once; so are its columns.
    const auto row_at = [&](int m) { return m / kX * (kDown * kX) + y * kX + m % kX; };
    const auto column_at = [&](int n) { return n / kY * (kAcross * kY) + x * kY + n % kY; };
    S sums[kRowsEach][kColumnsEach];
#pragma unroll
    for (int m = 0; m < kRowsEach; ++m) {
      const i64 r = row0 + row_at(m), end = r < rows ? width(r) : 0;
#pragma unroll
      for (int n = 0; n < kColumnsEach; ++n) {
        const i64 c = column0 + column_at(n);
        sums[m][n] = c < end ? first(r, c) : S();
      }
    }
    PieceX next_x;
    PieceY next_y;
    const auto of_row = [&](i64 r, i64 k) { return Steps::kOfRows ? steps.has(r, k) : k < steps.end; };
    const auto of_column = [&](i64 c, i64 k) { return Steps::kOfColumns ? steps.has(c, k) : k < steps.end; };
    const auto read = [&](i64 k) {
      next_x.read(row0, rows, k, Steps::kOfRows ? steps.all(k, kDeep) : k + kDeep <= steps.end, of_row, X(), row);
      next_y.read(column0, columns, k, Steps::kOfColumns ? steps.all(k, kDeep) : k + kDeep <= steps.end, of_column,
                  Y(), column);
    };
// The first turn only reads: written twice, reading would be a quarter of what the compiler has to do.
#pragma unroll 1
    for (i64 k = steps.begin - kDeep; k < steps.end; k += kDeep) {
      const bool computes = k >= steps.begin;
      if (computes) {
        barrier_block();
        next_x.put(xs);
        next_y.put(ys);
        barrier_block();
      }
      if (k + kDeep < steps.end) read(k + kDeep);
      if (!computes) continue;
      const auto has = [&](int m, int n, int at) {
        if (Steps::kOfRows) return steps.has(row0 + row_at(m), k + at);
        return !Steps::kOfColumns || steps.has(column0 + column_at(n), k + at);
      };
      const auto one = [&](int at, bool all) {
        Several<X, kX> a[kRowsEach / kX];
        Several<Y, kY> b[kColumnsEach / kY];
#pragma unroll
        for (int m = 0; m < kRowsEach; m += kX) a[m / kX] = *(const Several<X, kX>*)(xs + at * PieceX::kStride + row_at(m));
#pragma unroll
        for (int n = 0; n < kColumnsEach; n += kY)
          b[n / kY] = *(const Several<Y, kY>*)(ys + at * PieceY::kStride + column_at(n));
#pragma unroll
        for (int m = 0; m < kRowsEach; ++m) {
#pragma unroll
          for (int n = 0; n < kColumnsEach; ++n) {
            if (all || has(m, n, at)) step(sums[m][n], a[m / kX].v[m % kX], b[n / kY].v[n % kY]);
          }
        }
      };
      if (steps.all(k, kDeep)) {
#pragma unroll 4
        for (int at = 0; at < kDeep; ++at) one(at, true);
      } else {
        const int left = steps.end - k < kDeep ? (int)(steps.end - k) : kDeep;
#pragma unroll 1
        for (int at = 0; at < left; ++at) one(at, false);
      }
    }
#pragma unroll
    for (int m = 0; m < kRowsEach; ++m) {
      const i64 r = row0 + row_at(m), end = r < rows ? width(r) : 0;
#pragma unroll
      for (int n = 0; n < kColumnsEach; ++n) {
        const i64 c = column0 + column_at(n);
        if (c < end) last(r, c, sums[m][n]);
      }
    }
  }
};

/// A tile of a product of f64 by the tensor cores: each warp has kRowsEach times 16 rows and kColumnsEach times 8 columns.
template <int kBlock, int kRowsEach, int kColumnsEach> struct TensorTile {
  static constexpr int kWarps = kBlock / 32, kAcross = kWarps >= 8 ? 2 : 1, kDown = kWarps / kAcross, kDeep = 16;
  static constexpr int kRows = kDown * kRowsEach * 16, kColumns = kAcross * kColumnsEach * 8;

  template <class S, class X, class Y, bool kXAlong, bool kYAlong, class Row, class Column, class Width, class Steps,
            class Step, class First, class Last>
  static __device__ __forceinline__ void run(i64 row0, i64 rows, i64 column0, i64 columns, Steps steps, Row row,
                                             Column column, Width width, Step, First first, Last last) {
    typedef Piece<X, kBlock, kRows, kDeep, kXAlong> PieceX;
    typedef Piece<Y, kBlock, kColumns, kDeep, kYAlong> PieceY;
    double* const xs = (double*)appy_shared();
    double* const ys = xs + kDeep * PieceX::kStride;
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
    const int top = warp / kAcross * kRowsEach * 16, left = warp % kAcross * kColumnsEach * 8;
    const auto row_of = [&](int m, int e) { return row0 + top + 16 * m + group + 8 * (e / 2); };
    const auto column_of = [&](int n, int e) { return column0 + left + 8 * n + 2 * member + e % 2; };
    double sums[kRowsEach][kColumnsEach][4];
    bool minus = false;  // a sum is -0, which 0 would change
#pragma unroll
    for (int m = 0; m < kRowsEach; ++m) {
#pragma unroll
      for (int n = 0; n < kColumnsEach; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const i64 r = row_of(m, e), c = column_of(n, e);
          sums[m][n][e] = r < rows && c < width(r) ? first(r, c).v0 : 0.0;
          if (Steps::kOfRows || Steps::kOfColumns) minus |= f_signbit(sums[m][n][e]) && sums[m][n][e] == 0;
        }
      }
    }
    PieceX next_x;
    PieceY next_y;
    const auto of_row = [&](i64 r, i64 k) { return Steps::kOfRows ? steps.has(r, k) : k < steps.end; };
    const auto of_column = [&](i64 c, i64 k) { return Steps::kOfColumns ? steps.has(c, k) : k < steps.end; };
    // Where there is no step there are products of 0 and -0: they change no sum, whatever its sign.
    const auto read = [&](i64 k) {
      next_x.read(row0, rows, k, Steps::kOfRows ? steps.all(k, kDeep) : k + kDeep <= steps.end, of_row, X{0.0}, row);
      next_y.read(column0, columns, k, Steps::kOfColumns ? steps.all(k, kDeep) : k + kDeep <= steps.end, of_column,
                  Y{-0.0}, column);
    };
    read(steps.begin);
    for (i64 k = steps.begin; k < steps.end; k += kDeep) {
      // Where some have the step and others do not, what the others have to be multiplied by 0 may not be a number.
      const bool some = (Steps::kOfRows || Steps::kOfColumns) && !steps.all(k, kDeep);
      bool careful = some && (minus || (Steps::kOfRows ? next_y.any_infinite() : next_x.any_infinite()));
      barrier_block();
      next_x.put((X*)xs);
      next_y.put((Y*)ys);
      if (some) {
        delay();
        careful = __syncthreads_or(careful) != 0;
      } else {
        barrier_block();
      }
      if (k + kDeep < steps.end) read(k + kDeep);
      if (careful) {
        const int left = steps.end - k < kDeep ? (int)(steps.end - k) : kDeep;
#pragma unroll 1
        for (int at = 0; at < left; ++at) {
#pragma unroll
          for (int m = 0; m < kRowsEach; ++m) {
#pragma unroll
            for (int n = 0; n < kColumnsEach; ++n) {
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                const i64 r = row_of(m, e), c = column_of(n, e);
                if (!steps.has(Steps::kOfRows ? r : c, k + at)) continue;
                sums[m][n][e] = fma(xs[at * PieceX::kStride + (int)(r - row0)],
                                    ys[at * PieceY::kStride + (int)(c - column0)], sums[m][n][e]);
              }
            }
          }
        }
        continue;
      }
// Unrolled, it would need more registers than there are.
#pragma unroll 1
      for (int at = 0; at < kDeep; at += 8) {
        double a[kRowsEach][4], b[kColumnsEach][2];
#pragma unroll
        for (int m = 0; m < kRowsEach; ++m) {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            a[m][e] = xs[(at + member + 4 * (e / 2)) * PieceX::kStride + top + 16 * m + group + 8 * (e % 2)];
        }
#pragma unroll
        for (int n = 0; n < kColumnsEach; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) b[n][e] = ys[(at + member + 4 * e) * PieceY::kStride + left + 8 * n + group];
        }
#pragma unroll
        for (int m = 0; m < kRowsEach; ++m) {
#pragma unroll
          for (int n = 0; n < kColumnsEach; ++n) appy_multiply_f64(sums[m][n], a[m], b[n]);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < kRowsEach; ++m) {
#pragma unroll
      for (int n = 0; n < kColumnsEach; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const i64 r = row_of(m, e), c = column_of(n, e);
          if (r < rows && c < width(r)) last(r, c, S{sums[m][n][e]});
        }
      }
    }
  }
};
)cuda";

}  // namespace appy::gpu
