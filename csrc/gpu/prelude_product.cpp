#include "gpu/prelude.h"

namespace appy::gpu {

const std::string_view product_header =
    R"cuda(// Sums over steps of what a row and a column make together, in tiles (passes/product.h).
#pragma once
#include "appy_device.h"

/// Tile number w: a band of them below each other, then the next ones to the right. Those in flight share what they read.
struct TileAt {
  i64 down, across;
};
APPY_INLINE TileAt tile_at(i64 w, i64 down, i64 across, i64 most_high) {
  const i64 band = quotient(w, most_high * across), first = band * most_high, inside = w - first * across;
  const i64 high = down - first < most_high ? down - first : most_high;
  const i64 right = quotient(inside, high);
  return {first + inside - right * high, right};
}
struct EvenOrder {
  i64 down, across;
  __device__ __forceinline__ i64 all() const { return down * across; }
  __device__ __forceinline__ TileAt at(i64 w) const { return tile_at(w, down, across, 8); }
};

/// So many rows of tiles differ little in what there is to do.
APPY_INLINE i64 band_of(i64 down) { return down >= 128 ? 8 : down >= 32 ? down / 16 : 1; }

/// Of tiles with different numbers of steps those with most come first; and whichever multiprocessor has one with many
/// has one with few next.
template <bool kOfRows, int kMultiprocessors> struct UnevenOrder {
  i64 down, across;
  bool back;  // the last row, or column, has most
  __device__ __forceinline__ i64 all() const { return down * across; }
  __device__ __forceinline__ TileAt at(i64 w) const {
    const i64 round = quotient(w, (i64)kMultiprocessors), first = round * kMultiprocessors;
    const i64 left = all() - first, size = left < kMultiprocessors ? left : kMultiprocessors;
    const i64 turn = round % 2 ? first + size - 1 - (w - first) : w, lines = kOfRows ? down : across;
    TileAt at = tile_at(turn, lines, kOfRows ? across : down, band_of(lines));
    if (back) at.down = lines - 1 - at.down;
    return kOfRows ? at : TileAt{at.across, at.down};
  }
};
template <bool kOfRows, int kMultiprocessors, class Ends>
APPY_INLINE UnevenOrder<kOfRows, kMultiprocessors> uneven_order(i64 down, i64 across, i64 size, Ends ends) {
  bool back = false;
  if (size > 0) {
    const auto first = ends(0), last = ends(size - 1);
    back = last.end - last.begin > first.end - first.begin;
  }
  return {down, across, back};
}

/// Of rows of different widths: bands of rows of tiles, each as wide as its widest row.
struct WidthOrder {
  static constexpr int kMost = 128;  // bands
  i64 down, band, bands;
  const int* begins;  // how many tiles there are before a band
  __device__ __forceinline__ i64 all() const { return begins[bands]; }
  __device__ __forceinline__ TileAt at(i64 w) const {
    i64 low = 0, high = bands;  // the last band that does not begin behind it
#pragma unroll 1
    while (high - low > 1) {
      const i64 middle = (low + high) / 2;
      (begins[middle] <= w ? low : high) = middle;
    }
    const i64 first = low * band, rows = down - first < band ? down - first : band, inside = w - begins[low];
    const i64 right = quotient(inside, rows);
    return {first + inside - right * rows, right};
  }
};
/// `begins` has room for one more than kMost.
template <int kBlock, int kTileRows, int kTileColumns, class Width>
APPY_INLINE WidthOrder width_order(i64 rows, Width width, int* begins) {
  const i64 down = (rows + kTileRows - 1) / kTileRows, fewest = (down + WidthOrder::kMost - 1) / WidthOrder::kMost;
  const i64 band = band_of(down) > fewest ? band_of(down) : fewest, bands = (down + band - 1) / band;
  barrier_block();
#pragma unroll 1
  for (int b = threadIdx.x; b <= bands; b += kBlock) begins[b] = 0;
  barrier_block();
  // Each thread has rows below each other, which are mostly of one band.
  const i64 each = (rows + kBlock - 1) / kBlock, end = rows - threadIdx.x * each < each ? rows : (threadIdx.x + 1) * each;
  i64 most = 0, next = 0;  // of the band that ends there
  int* here = begins;
#pragma unroll 1
  for (i64 r = threadIdx.x * each; r < end; ++r) {
    if (r >= next) {
      if (most > 0) atomicMax(here, (int)most);
      const i64 b = quotient(r, band * kTileRows);
      next = (b + 1) * band * kTileRows;
      here = begins + b + 1;
      most = 0;
    }
    const i64 tiles = (width(r) + kTileColumns - 1) / kTileColumns;
    if (tiles > most) most = tiles;
  }
  if (most > 0) atomicMax(here, (int)most);
  barrier_block();
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (i64 b = 0; b < bands; ++b)
      begins[b + 1] = begins[b] + begins[b + 1] * (int)(down - b * band < band ? down - b * band : band);
  }
  barrier_block();
  return {down, band, bands, begins};
}

/// The most columns that a row has, for all threads of a block.
template <int kBlock, class Width> APPY_INLINE i64 widest(i64 rows, Width width) {
  i64 most = 0;
#pragma unroll 1
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
#pragma unroll 1
  for (i64 r = threadIdx.x; r < count; r += kBlock) mine |= first + r < rows && width(first + r) > column;
  delay();
  return __syncthreads_or(mine) != 0;
}

struct StepRange {
  i64 begin, end;
};
/// The steps of all rows and columns.
struct EvenSteps {
  i64 begin, end;
  static constexpr bool kOfRows = false, kOfColumns = false;
  __device__ __forceinline__ bool all(i64 k, int n) const { return k + n <= end; }
  __device__ __forceinline__ bool has(i64, i64 k) const { return k < end; }
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
#pragma unroll 1
  for (i64 e = first + threadIdx.x; e < first + count && e < size; e += kBlock) {
    const StepRange range = ends(e);
    least = Least::combine(least, {range.begin, -range.end, -range.begin, range.end});
  }
  least = reduce_lanes<kBlock>(least);
  barrier_block();
  return {least.v0, -least.v1, -least.v2, least.v3, ends};
}

/// What kSize rows, or columns, have for kDeep steps, as far as a thread brings it. Along steps: kRun of them together.
template <class V, int kBlock, int kSize, int kDeep, bool kAlongSteps, int kRun> struct Piece {
  static constexpr int kAll = kSize * kDeep, kEach = (kAll + kBlock - 1) / kBlock;
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
};

template <class V, int kCount> struct __align__(kCount * sizeof(V)) Several {
  V v[kCount];
};
template <class V, int kMost> struct Together {
  static constexpr int fits = sizeof(V) >= 16 ? 1 : sizeof(V) == 8 ? 2 : 4;
  static constexpr int count = fits < kMost ? fits : kMost;
};

template <class V, int kTerms> struct ElementOf {
  typedef double type;
};
template <class V> struct ElementOf<V, 0> {
  typedef V type;
};
/// What a row or a column has, in pieces in shared memory; with kTerms these numbers have planes of their own. There a
/// step is a line, 4 elements longer than it is filled, as is a row's where those of a step are no neighbours in memory:
/// what a warp copies from one line should come to one line. Neighbours in either direction are in other banks.
template <class V, int kBlock, int kSize, int kDeep, int kTerms, bool kAlongSteps> struct Operand {
  static constexpr bool kOfSteps = kTerms == 0 || !kAlongSteps;
  static constexpr int kPlace = kOfSteps ? 1 : kDeep + 4, kStep = kOfSteps ? kSize + 4 : 1;
  static constexpr int kPlane = kOfSteps ? kDeep * kStep : kSize * kPlace;
  // A sector of memory, or all steps of a piece.
  static constexpr int kRun = !kOfSteps ? kDeep : sizeof(V) >= 16 ? 2 : sizeof(V) >= 8 ? 4 : 8;
  typedef Piece<V, kBlock, kSize, kDeep, kAlongSteps, kRun> Read;
  typedef V Value;
  typedef typename ElementOf<V, kTerms>::type Element;
  static constexpr int kBytes = kPlane * (kTerms ? kTerms : 1) * (int)sizeof(Element);

  static __device__ __forceinline__ Element* element(Element* piece, int at) {
    return piece + Read::step(at) * kStep + Read::place(at) * kPlace;
  }
  /// Begins copies, which go on while the thread does.
  template <class Has, class Fetch>
  static __device__ __forceinline__ void fetch(Element* piece, i64 first, i64 size, i64 k, bool all, Has has, V nothing,
                                               Fetch fetch_one) {
    if (first + kSize <= size && all) {
#pragma unroll
      for (int e = 0; e < Read::kEach; ++e) {
        const int at = threadIdx.x + e * kBlock;
        if (Read::kAll % kBlock != 0 && at >= Read::kAll) break;
        fetch_one(element(piece, at), kPlane, first + Read::place(at), k + Read::step(at));
      }
      return;
    }
#pragma unroll 1
    for (int at = threadIdx.x; at < Read::kAll; at += kBlock) {
      const i64 e = first + Read::place(at), step = k + Read::step(at);
      if (e < size && has(e, step)) {
        fetch_one(element(piece, at), kPlane, e, step);
      } else {
        put_one(element(piece, at), nothing);
      }
    }
  }
  static __device__ __forceinline__ void put_one(Element* to, const V& value) {
    if constexpr (kTerms == 0) {
      *to = value;
    } else {
      const double* const from = (const double*)&value;
#pragma unroll
      for (int t = 0; t < kTerms; ++t) to[t * kPlane] = from[t];
    }
  }
  static __device__ __forceinline__ void put(Element* piece, const Read& read) {
#pragma unroll
    for (int e = 0; e < Read::kEach; ++e) {
      const int at = threadIdx.x + e * kBlock;
      if (Read::kAll % kBlock != 0 && at >= Read::kAll) break;
      put_one(element(piece, at), read.held[e]);
    }
  }
  /// Of numbers: is one that this thread has brought not finite?
  static __device__ __forceinline__ bool any_infinite(const Element* piece) {
    bool any = false;
#pragma unroll 1
    for (int at = threadIdx.x; at < Read::kAll; at += kBlock) {
#pragma unroll
      for (int t = 0; t < kTerms; ++t) any |= !(fabs(element((Element*)piece, at)[t * kPlane]) <= 1.7976931348623157e308);
    }
    return any;
  }
};

/// Brings the pieces of a tile to shared memory, where kStages of them have a place. kXAhead: Row is a function that
/// begins to copy what a row has, else one that returns it.
template <class OfX, class OfY, int kDeep, int kStages, bool kXAhead, bool kYAhead, class Steps, class Row, class Column>
struct Pieces {
  i64 row0, rows, column0, columns;
  Steps steps;
  Row row;
  Column column;
  typename OfX::Value no_x;  // where there is no step
  typename OfY::Value no_y;
  typename OfX::Read next_x;
  typename OfY::Read next_y;
  static constexpr int kBytes = OfX::kBytes + OfY::kBytes;

  static __device__ __forceinline__ typename OfX::Element* x_of(int number) {
    return (typename OfX::Element*)(appy_shared() + number * kBytes);
  }
  static __device__ __forceinline__ typename OfY::Element* y_of(int number) {
    return (typename OfY::Element*)(appy_shared() + number * kBytes + OfX::kBytes);
  }
  /// All threads have left what was in the piece's place before.
  __device__ __forceinline__ void begin(i64 k, int number) {
    if (k < steps.end) {
      const bool whole = k + kDeep <= steps.end, all = steps.all(k, kDeep);
      const auto of_row = [&](i64 r, i64 at) { return Steps::kOfRows ? steps.has(r, at) : at < steps.end; };
      const auto of_column = [&](i64 c, i64 at) { return Steps::kOfColumns ? steps.has(c, at) : at < steps.end; };
      if constexpr (kXAhead) {
        OfX::fetch(x_of(number), row0, rows, k, Steps::kOfRows ? all : whole, of_row, no_x, row);
      } else {
        next_x.read(row0, rows, k, Steps::kOfRows ? all : whole, of_row, no_x, row);
      }
      if constexpr (kYAhead) {
        OfY::fetch(y_of(number), column0, columns, k, Steps::kOfColumns ? all : whole, of_column, no_y, column);
      } else {
        next_y.read(column0, columns, k, Steps::kOfColumns ? all : whole, of_column, no_y, column);
      }
    }
    appy_commit_copies();
  }
  __device__ __forceinline__ void end(i64 k, int number) {
    if (k >= steps.end) return;
    if constexpr (!kXAhead) OfX::put(x_of(number), next_x);
    if constexpr (!kYAhead) OfY::put(y_of(number), next_y);
  }
  /// For each piece, by its first step and its number, `meet` makes all threads wait for each other, and `compute`
  /// follows.
  template <class Meet, class Compute> __device__ __forceinline__ void run(Meet meet, Compute compute) {
    barrier_block();  // the tile before needs its pieces no longer
    int here = 0, there = 0;
// The first turns only bring pieces: written twice, bringing them would be a third of what the compiler has to do.
#pragma unroll 1
    for (i64 k = steps.begin - (kStages - 1) * kDeep; k < steps.end; k += kDeep) {
      const bool computes = k >= steps.begin;
      if (computes) {
        appy_await_copies_but<kStages - 2>();
        meet(k, here);
      }
      begin(k + (kStages - 1) * kDeep, there);
      if (computes) compute(k, here);
      end(k + (kStages - 1) * kDeep, there);
      there = there == kStages - 1 ? 0 : there + 1;
      if (computes) here = here == kStages - 1 ? 0 : here + 1;
    }
    appy_await_copies_but<0>();
  }
};

/// A tile of sums: each thread has kRowsEach times kColumnsEach of them, each summed in the order of its steps.
template <int kBlock, int kRowsEach, int kColumnsEach, int kStages> struct SumTile {
  static constexpr int kAcross = kBlock >= 256 ? 16 : kBlock >= 64 ? 8 : 4, kDown = kBlock / kAcross, kDeep = 16;
  static constexpr int kRows = kDown * kRowsEach, kColumns = kAcross * kColumnsEach;

  template <class S, class X, class Y, bool kXAlong, bool kYAlong, bool kXAhead, bool kYAhead, class Row, class Column,
            class Width, class Steps, class Step, class First, class Before, class Last>
  static __device__ __forceinline__ void run(i64 row0, i64 rows, i64 column0, i64 columns, Steps steps, Row row,
                                             Column column, Width width, Step step, First first, Before before,
                                             Last last) {
    typedef Operand<X, kBlock, kRows, kDeep, 0, kXAlong> OfX;
    typedef Operand<Y, kBlock, kColumns, kDeep, 0, kYAlong> OfY;
    constexpr int kX = Together<X, kRowsEach>::count, kY = Together<Y, kColumnsEach>::count;
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
    Pieces<OfX, OfY, kDeep, kStages, kXAhead, kYAhead, Steps, Row, Column> pieces = {row0, rows, column0, columns, steps,
                                                                                    row,  column};
    const auto meet = [&](i64, int) { barrier_block(); };
    pieces.run(meet, [&](i64 k, int number) {
      const X* const xs = pieces.x_of(number);
      const Y* const ys = pieces.y_of(number);
      const auto has = [&](int m, int n, int at) {
        if (Steps::kOfRows) return steps.has(row0 + row_at(m), k + at);
        return !Steps::kOfColumns || steps.has(column0 + column_at(n), k + at);
      };
      const auto one = [&](int at, bool all) {
        Several<X, kX> a[kRowsEach / kX];
        Several<Y, kY> b[kColumnsEach / kY];
#pragma unroll
        for (int m = 0; m < kRowsEach; m += kX) a[m / kX] = *(const Several<X, kX>*)(xs + at * OfX::kStep + row_at(m));
#pragma unroll
        for (int n = 0; n < kColumnsEach; n += kY)
          b[n / kY] = *(const Several<Y, kY>*)(ys + at * OfY::kStep + column_at(n));
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
    });
    S ended[kRowsEach][kColumnsEach];  // in memory, for a loop instead of a copy of it for each row
#pragma unroll
    for (int i = 0; i < kRowsEach * kColumnsEach; ++i)
      ended[i / kColumnsEach][i % kColumnsEach] = sums[i / kColumnsEach][i % kColumnsEach];
#pragma unroll 1
    for (int m = 0; m < kRowsEach; ++m) {
      const i64 r = row0 + row_at(m), end = r < rows ? width(r) : 0;
      decltype(before(0, 0)) held[kColumnsEach];
#pragma unroll
      for (int n = 0; n < kColumnsEach; ++n) {
        const i64 c = column0 + column_at(n);
        if (c < end) held[n] = before(r, c);
      }
#pragma unroll
      for (int n = 0; n < kColumnsEach; ++n) {
        const i64 c = column0 + column_at(n);
        if (c < end) last(r, c, ended[m][n], held[n]);
      }
    }
  }
};

/// Sums of kTerms products of f64 by the tensor cores. Each warp has 32 rows and 32 columns; kDown times kAcross of them
/// are a tile, and kShares such groups of warps each have a part of the steps of a piece. Pieces are copied into shared
/// memory ahead.
template <int kBlock, int kDown, int kAcross, int kShares, int kTerms, int kStages> struct TensorTile {
  static constexpr int kRows = 32 * kDown, kColumns = 32 * kAcross,
                       kDeep = (kShares == 4 ? 32 : 16) / kTerms;
  static constexpr int kShare = kDeep / kShares;  // steps of a piece that a warp has

  /// Which of the tile's sums a thread begins or keeps: neighbours in a row are neighbouring threads'.
  static constexpr int kEach = kRows * kColumns / kBlock, kTogether = 4;  // so many loads are under way at once
  static __device__ __forceinline__ int place(int e) { return threadIdx.x + e * kBlock; }

  /// kFromZero: all sums begin there. kCrossed: a term has values of different numbers of the row and the column.
  template <class S, class X, class Y, bool kXAlong, bool kYAlong, bool kXAhead, bool kYAhead, bool kFromZero,
            int kCrossed, class Row, class Column, class Width, class Steps, class First, class Before, class Last>
  static __device__ __forceinline__ void run(i64 row0, i64 rows, i64 column0, i64 columns, Steps steps, Row row,
                                             Column column, Width width, First first, Before before,
                                             Last last) {
    typedef Operand<X, kBlock, kRows, kDeep, kTerms, kXAlong> OfX;
    typedef Operand<Y, kBlock, kColumns, kDeep, kTerms, kYAlong> OfY;
    constexpr bool kUneven = Steps::kOfRows || Steps::kOfColumns;
    double* const shared = (double*)appy_shared();
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
    const int share = warp / (kDown * kAcross), top = warp / kAcross % kDown * 32, left = warp % kAcross * 32;
    const auto place_of = [&](int m, int n, int e) {
      return (top + 16 * m + group + 8 * (e / 2)) * kColumns + left + 8 * n + 2 * member + e % 2;
    };
    double sums[2][4][4];
    bool minus = false;  // a sum is -0, which 0 would change
    barrier_block();     // the tile before has been kept
    if (kFromZero) {
#pragma unroll
      for (int i = 0; i < 32; ++i) sums[i / 16][i / 4 % 4][i % 4] = share == 0 || kUneven ? 0.0 : -0.0;
    } else {
#pragma unroll 1
      for (int begin = 0; begin < kEach; begin += kTogether) {
        double sum[kTogether];
#pragma unroll
        for (int e = 0; e < kTogether; ++e) {
          const i64 r = row0 + place(begin + e) / kColumns, c = column0 + place(begin + e) % kColumns;
          sum[e] = r < rows && c < width(r) ? first(r, c).v0 : 0.0;
        }
#pragma unroll
        for (int e = 0; e < kTogether; ++e) shared[place(begin + e)] = sum[e];
      }
      barrier_block();
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const double sum = shared[place_of(i / 16, i / 4 % 4, i % 4)];
        const bool is_minus = f_signbit(sum) && sum == 0;
        sums[i / 16][i / 4 % 4][i % 4] = share == 0 ? sum : is_minus || !kUneven ? -0.0 : 0.0;
        minus |= is_minus;
      }
      barrier_block();
    }
    Pieces<OfX, OfY, kDeep, kStages, kXAhead, kYAhead, Steps, Row, Column> pieces = {row0, rows, column0, columns, steps,
                                                                                    row,  column};
    // Where there is no step there are products of 0 and -0: they change no sum, whatever its sign.
#pragma unroll
    for (int t = 0; t < kTerms; ++t) ((double*)&pieces.no_y)[t] = -0.0;
    bool careful;  // where some have the step and others do not, what is multiplied by 0 there may not be a number
    const auto meet = [&](i64 k, int number) {
      careful = false;
      if (!kUneven || steps.all(k, kDeep)) return barrier_block();
      careful = minus || (Steps::kOfRows ? OfY::any_infinite(pieces.y_of(number)) : OfX::any_infinite(pieces.x_of(number)));
      delay();
      careful = __syncthreads_or(careful) != 0;
    };
    pieces.run(meet, [&](i64 k, int number) {
      const double *const xs = pieces.x_of(number), *const ys = pieces.y_of(number);
      if (careful) {
        const int to = steps.end - k < kShare * (share + 1) ? (int)(steps.end - k) : kShare * (share + 1);
        double slow[32];  // in memory, for a loop instead of a copy of it for each of them
#pragma unroll
        for (int i = 0; i < 32; ++i) slow[i] = sums[i / 16][i / 4 % 4][i % 4];
#pragma unroll 1
        for (int at = kShare * share; at < to; ++at) {
#pragma unroll 1
          for (int i = 0; i < 32; ++i) {
            const int place = place_of(i / 16, i / 4 % 4, i % 4), r = place / kColumns, c = place % kColumns;
            if (!steps.has(Steps::kOfRows ? row0 + r : column0 + c, k + at)) continue;
#pragma unroll
            for (int t = 0; t < kTerms; ++t)
              slow[i] = fma(xs[t * OfX::kPlane + at * OfX::kStep + r * OfX::kPlace],
                            ys[(t ^ kCrossed) * OfY::kPlane + at * OfY::kStep + c * OfY::kPlace], slow[i]);
          }
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) sums[i / 16][i / 4 % 4][i % 4] = slow[i];
      } else {
        const double* const x = xs + (kShare * share + member) * OfX::kStep + (top + group) * OfX::kPlace;
        const double* const y = ys + (kShare * share + member) * OfY::kStep + (left + group) * OfY::kPlace;
        // The steps of one term stand before those of the other.
        const auto of_x = [&](int at, int r) {
          return x[at / kShare * OfX::kPlane + at % kShare * OfX::kStep + r * OfX::kPlace];
        };
        const auto of_y = [&](int at, int c) {
          return y[(at / kShare ^ kCrossed) * OfY::kPlane + at % kShare * OfY::kStep + c * OfY::kPlace];
        };
#pragma unroll 1
        for (int at = 0; at < kShare * kTerms; at += 8) {
          double a[2][4], b[4][2];
#pragma unroll
          for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = of_x(at + 4 * (i % 4 / 2), 16 * (i / 4) + 8 * (i % 2));
#pragma unroll
          for (int i = 0; i < 8; ++i) b[i / 2][i % 2] = of_y(at + 4 * (i % 2), 8 * (i / 2));
#pragma unroll
          for (int i = 0; i < 8; ++i) appy_multiply_f64(sums[i / 4][i % 4], a[i / 4], b[i % 4]);
        }
      }
    });
    // The warps' parts of each sum, one after the other.
#pragma unroll 1
    for (int turn = 0; turn < kShares; ++turn) {
      barrier_block();
      if (share == turn) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          double& sum = shared[place_of(i / 16, i / 4 % 4, i % 4)];
          sum = turn == 0 ? sums[i / 16][i / 4 % 4][i % 4] : sum + sums[i / 16][i / 4 % 4][i % 4];
        }
      }
    }
    barrier_block();
#pragma unroll 1
    for (int begin = 0; begin < kEach; begin += kTogether) {
      decltype(before(0, 0)) held[kTogether];
      const auto with_each = [&](int e, bool keep) {
        const i64 r = row0 + place(begin + e) / kColumns, c = column0 + place(begin + e) % kColumns;
        if (r >= rows || c >= width(r)) return;
        if (keep) {
          last(r, c, S{shared[place(begin + e)]}, held[e]);
        } else {
          held[e] = before(r, c);
        }
      };
#pragma unroll
      for (int e = 0; e < kTogether; ++e) with_each(e, false);
#pragma unroll
      for (int e = 0; e < kTogether; ++e) with_each(e, true);
    }
  }
};
)cuda";

}  // namespace appy::gpu
