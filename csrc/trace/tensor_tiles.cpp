// Products of two matrices, in tiles: a block of each factor is copied to where it lies in the order in which it is
// read, and six rows of the result are accumulated in registers at a time (Goto & van de Geijn, TOMS 2008). Of a
// product of a matrix with its own transpose what lies at and above the diagonal is computed, the rest is copied.
#include <algorithm>
#include <array>
#include <utility>

#include "ir/builder.h"
#include "trace/conversion.h"
#include "trace/tensor.h"

namespace appy::trace {
namespace {

using ir::Value;

/// Rows that are accumulated together: with two vectors of columns their sums, a row of the right factor and an element
/// of the left one fill sixteen registers.
constexpr int64_t kRows = 6;
/// A panel of the right factor, `depth` rows of two vectors, stays in the first cache, a block of `rows` rows of the
/// left one in the second, and the panels in the third, where workers with the same columns share them. With 32
/// registers panels have four vectors: a row serves six rows of sums for as long as the second cache takes for the next
/// one. With sixteen a panel and six rows of the left factor are 28 KB: of 320 products at a time, 35 KB, 2500 x 3000 x
/// 2750 takes 492 ms on a Zen 2, so 475.
/// Of no more than `most` products all are added up at once: the sums are written once, and read by nobody in between
/// (the same, 350 x 350 by 350 x 400: 1.53 ms instead of 1.58).
struct BlockSize {
  int64_t panel_bytes, depth, most, rows;
};
constexpr BlockSize kAvx512{256, 384, 384, 192}, kAvx2{64, 256, 352, 96};
/// Panels of four vectors need no copies as long as one stays in the second cache and the right factor lies on few
/// pages. Zen 4, two threads, with copies and without: 1.34 and 1.26 ms (350 x 350 x 550), 4.0 and 2.3 (2000 x 16 x
/// 2000); of the right factor alone 403 and 441 (2500 x 3000 x 2750).
constexpr int64_t kDeepest = 512, kStays = int64_t{6} << 20;
/// Groups of rows for which a worker copies a panel for itself, so that its vectors do not lie across lines of the
/// cache, nor its rows on as many pages. A Xeon, one thread, 350 x 350 x 550: 1.80 ms instead of 2.08.
constexpr int64_t kGroupsOfCopy = 8;
/// Rows a multiple of so many bytes apart fall into few sets of the caches: 768 columns of float64, on a Xeon, 13 ms
/// with copies and 18 without.
constexpr int64_t kFewSets = 2048;
/// Bytes of a row of the right factor that are copied at a time, at most.
constexpr int64_t kCopiedBytes = 32768;
/// Blocks of a worker's rows, at least, where they have so many rows: not all workers are equally fast.
constexpr int64_t kTimesOfEach = 4, kFewRows = 96;
/// Products with at most so many multiplications are computed where the factors lie; with fewer, where neighbours in
/// the right one lie below each other and have to be gathered.
constexpr int64_t kSmall = 104 * 104 * 104;
constexpr int64_t kSmallGathered = 16 * 16 * 16;
/// Rows and columns of the blocks in which the upper triangle is copied to the lower one.
constexpr int64_t kMirrored = 32;
/// With fewer groups of rows for each worker columns of a product in place are divided, too.
constexpr int64_t kGroupsOfEach = 4;

class Tiles {
 public:
  Tiles(Context& c, DType dtype, TensorRef left, TensorRef right, TensorRef out)
      : c_(c),
        e_(c),
        dtype_(dtype),
        left_(std::move(left)),
        right_(std::move(right)),
        out_(std::move(out)),
        rows_(left_->shape[0]),
        columns_(right_->shape[1]),
        depth_(left_->shape[1]),
        workers_(std::max(1, c.workers())),
        symmetric_(same_view(*left_, *transposed(c, right_))),
        beside_(symmetric_ ? 1 : nearly_square(workers_)),
        left_down_(runs_down(left_)),
        right_down_(runs_down(right_)),
        size_(c.registers() > 16 ? kAvx512 : kAvx2),
        panel_(size_.panel_bytes / ir::size_of(dtype)),
        widest_(kCopiedBytes / ir::size_of(dtype)) {}

  void emit(const MatrixProduct::Epilogue* epilogue) {
    Value* work = mul(mul(rows_, columns_), depth_);
    Value* here = e_.le(work, e_.i64(right_down_ ? kSmallGathered : kSmall));
    const Way in_its_place = [&] { in_place(epilogue); };
    const Way in_panels = [&] { by_panels(epilogue); };
    const Way in_blocks = [&] { apart(epilogue); };
    if (symmetric_ || !has_panels()) return choose(here, in_its_place, in_blocks);
    Value *near = is_near(), *pays = pays_to_copy();
    here = e_.either(here, e_.both(e_.both(near, is_spread()), e_.negate(pays)));
    choose(here, in_its_place, [&] { choose(e_.both(near, pays), in_panels, in_blocks); });
  }

 private:
  using Body = std::function<void(Value*)>;
  /// in_turn: iterations are the workers' in turn; dealt: begun likewise, by whoever comes first.
  enum class How : uint8_t { serial, parallel, in_turn, dealt, simd };

  using Way = std::function<void()>;
  /// The first way where the condition holds, else the second one.
  void choose(Value* condition, const Way& first, const Way& second) {
    if (const std::optional<bool> known = c_.settle(condition)) return *known ? first() : second();
    ir::Builder& b = c_.builder();
    const ir::Op* arms = b.if_op(condition, {});
    ir::Block* outer = b.block();
    for (const bool holds : {true, false}) {
      b.set_block(arms->blocks[holds ? 0 : 1]);
      holds ? first() : second();
      b.yield({});
    }
    b.set_block(outer);
  }

  /// Can panels of four vectors be read from the right factor itself?
  bool has_panels() const { return c_.registers() > 16 && right_->dtype == dtype_ && runs(reads_of(right_)[0]) == 1; }
  /// Bytes from a row of the right factor to the next one.
  Value* bytes_apart() {
    const Traced& base = reads_of(right_)[0].view->base;
    const int along = base.value->type.layout == ir::Layout::f ? 0 : base.value->type.rank - 1;
    return scaled(c_.extent(base, along), ir::size_of(dtype_));
  }
  /// A panel stays in the second cache, and the right factor lies on few pages.
  Value* is_near() {
    return e_.both(e_.le(depth_, e_.i64(kDeepest)), e_.le(mul(depth_, bytes_apart()), e_.i64(kStays)));
  }
  Value* is_spread() { return e_.ne(e_.op(Opcode::mod_, {bytes_apart(), e_.i64(kFewSets)}), e_.i64(0)); }
  /// Enough rows for each worker to copy a panel for them.
  Value* pays_to_copy() { return e_.ge(groups_of_each(), e_.i64(kGroupsOfCopy)); }

  /// From copies of both factors, with what becomes of the sums in a pass of its own.
  void apart(const MatrixProduct::Epilogue* epilogue) {
    if (size_.most > size_.depth) {
      Value* more = e_.gt(depth_, e_.i64(size_.depth));
      if (c_.settle(e_.both(more, e_.le(depth_, e_.i64(size_.most)))).value_or(false)) size_.depth = size_.most;
    }
    if (epilogue) sums_ = in_lines();
    packed();
    if (symmetric_) {
      mirror(epilogue);
    } else if (epilogue) {
      epilogue->apart(sums_);
    }
  }

  /// A divisor up to the square root.
  static int64_t nearly_square(int64_t n) {
    int64_t side = 1;
    for (int64_t k = 1; k * k <= n; k++) {
      if (n % k == 0) side = k;
    }
    return side;
  }

  static bool runs_down(const TensorRef& t) { return loop_order(reads_of(t), 2).back() == 0; }

  Value* add(Value* a, Value* b) { return e_.op(Opcode::add_, {a, b}); }
  Value* sub(Value* a, Value* b) { return e_.op(Opcode::sub_, {a, b}); }
  Value* mul(Value* a, Value* b) { return e_.op(Opcode::mul_, {a, b}); }
  Value* least(Value* a, Value* b) { return e_.op(Opcode::pymin_, {a, b}); }
  Value* ceiling(Value* n, Value* by) { return e_.ceiling(n, by); }
  Value* scaled(Value* v, int64_t by) { return by == 1 ? v : mul(v, e_.i64(by)); }
  Value* multiple(Value* at_least, int64_t of) { return scaled(ceiling(at_least, e_.i64(of)), of); }

  void loop(How how, Value* low, Value* high, const Body& body) {
    ir::Loop attributes;
    attributes.parallel = how == How::parallel || how == How::in_turn || how == How::dealt;
    if (how == How::dealt || how == How::in_turn) {
      attributes.schedule = how == How::dealt ? ir::Schedule::dynamic : ir::Schedule::statically;
      attributes.chunk = 1;
    }
    attributes.simd = how == How::simd;
    attributes.annotated = true;
    emit_loop(c_, low, high, std::move(attributes), body);
  }

  Value* element(const TensorRef& t, Value* i, Value* j) {
    Value* const at[] = {i, j};
    return cast_element(c_, t->at(c_, at), dtype_);
  }

  Value* array(std::initializer_list<Value*> shape) {
    return allocate(c_, dtype_, std::span(shape.begin(), shape.size()))->base.value;
  }

  Value* load(Value* array, std::initializer_list<Value*> at) {
    return c_.builder().load(array, std::span(at.begin(), at.size()));
  }

  void store(Value* array, Value* v, std::initializer_list<Value*> at) {
    c_.builder().store(v, array, std::span(at.begin(), at.size()));
  }

  /// Sums in columns [low, high) and in the rows from `first` on, which end before `end`: rows past the end are the
  /// last one again. `left` and `right` give the factors' elements for a row of the group and a column, `value` what
  /// becomes of a sum, and `store` takes it to its place.
  struct Parts {
    std::function<Value*(int64_t m, Value* row, Value* k)> left;
    std::function<Value*(Value* k, Value* column)> right;
    std::function<Value*(Value* sum, Value* row, Value* column)> value;
    std::function<void(Value*, Value* row, Value* column)> store;
  };
  void group(Value* first, Value* end, Value* low, Value* high, Value* depth, const Parts& parts) {
    std::array<Value*, kRows> rows;
    Value* last = sub(end, e_.i64(1));
    for (int64_t m = 0; m < kRows; m++) rows[static_cast<size_t>(m)] = m ? least(add(first, e_.i64(m)), last) : first;
    loop(How::simd, low, high, [&](Value* column) {
      std::vector<Value*> sums;
      for (size_t m = 0; m < rows.size(); m++) {
        sums.push_back(e_.number(dtype_, 0));
      }
      ir::Loop attributes;
      attributes.annotated = true;
      sums = emit_loop(c_, e_.i64(0), depth, sums, attributes, [&](Value* k, std::span<Value* const> carried) {
        Value* y = parts.right(k, column);
        std::vector<Value*> next;
        for (int64_t m = 0; m < kRows; m++) {
          const auto n = static_cast<size_t>(m);
          next.push_back(add(carried[n], mul(parts.left(m, rows[n], k), y)));
        }
        return next;
      });
      // All loads before the first store: rows past the end are one row several times.
      for (size_t m = 0; m < rows.size(); m++) sums[m] = parts.value(sums[m], rows[m], column);
      for (size_t m = 0; m < rows.size(); m++) parts.store(sums[m], rows[m], column);
    });
  }

  /// What becomes of the sums of a panel whose first column is `start`.
  Parts ends(const MatrixProduct::Epilogue* epilogue, Value* start) {
    Parts parts;
    const auto column = [this, start](Value* j) { return start ? add(start, j) : j; };
    if (epilogue) {
      parts.value = [=](Value* sum, Value* row, Value* j) { return epilogue->value(sum, row, column(j)); };
      parts.store = [=](Value* v, Value* row, Value* j) { epilogue->store(v, row, column(j)); };
    } else {
      parts.value = [](Value* sum, Value*, Value*) { return sum; };
      parts.store = [=, this](Value* v, Value* row, Value* j) { store(sums_, v, {row, column(j)}); };
    }
    parts.left = [this](int64_t, Value* row, Value* k) { return element(left_, row, k); };
    return parts;
  }

  Value* groups() { return ceiling(rows_, e_.i64(kRows)); }
  Value* groups_of_each() { return ceiling(groups(), e_.i64(workers_)); }

  void in_place(const MatrixProduct::Epilogue* epilogue) {
    Parts parts = ends(epilogue, nullptr);
    parts.right = [&](Value* k, Value* column) { return element(right_, k, column); };
    if (!has_panels()) {
      loop(How::parallel, e_.i64(0), groups(),
           [&](Value* g) { group(scaled(g, kRows), rows_, e_.i64(0), columns_, depth_, parts); });
      return;
    }
    // Each worker goes down its rows with one panel after the other; where there are few rows, down fewer with some of
    // the panels.
    Value* workers = e_.i64(workers_);
    Value* many = e_.ge(groups(), scaled(workers, kGroupsOfEach));
    Value* height = e_.select(many, groups_of_each(), e_.i64(1));
    Value* strips = e_.select(many, e_.i64(1), ceiling(scaled(workers, kGroupsOfEach), e_.at_least_one(groups())));
    Value* panels = ceiling(columns_, e_.i64(panel_));
    Value* width = ceiling(panels, strips);
    loop(How::parallel, e_.i64(0), mul(ceiling(groups(), height), strips), [&](Value* share) {
      Value* first = mul(e_.op(Opcode::floordiv_, {share, strips}), height);
      Value* last = least(add(first, height), groups());
      Value* from = mul(e_.op(Opcode::mod_, {share, strips}), width);
      loop(How::serial, from, least(add(from, width), panels), [&](Value* p) {
        Value* low = scaled(p, panel_);
        Value* high = least(add(low, e_.i64(panel_)), columns_);
        loop(How::serial, first, last, [&](Value* g) { group(scaled(g, kRows), rows_, low, high, depth_, parts); });
      });
    });
  }

  /// From a copy of a panel of the right factor, with which a worker goes down its rows. Workers that are through take
  /// panels of those that are not.
  void by_panels(const MatrixProduct::Epilogue* epilogue) {
    Value *workers = e_.i64(workers_), *height = groups_of_each();
    Value* panels = ceiling(columns_, e_.i64(panel_));
    Value* width = ceiling(panels, e_.i64(kTimesOfEach));
    Value* times = ceiling(panels, width);
    loop(How::dealt, e_.i64(0), mul(times, workers), [&](Value* turn) {
      Value* first = mul(e_.op(Opcode::mod_, {turn, workers}), height);
      Value* last = least(add(first, height), groups());
      Value* from = mul(e_.op(Opcode::floordiv_, {turn, workers}), width);
      Value* copy = array({e_.i64(kDeepest * panel_)});
      loop(How::serial, from, least(add(from, width), panels), [&](Value* p) {
        Value* start = scaled(p, panel_);
        Value* columns = least(sub(columns_, start), e_.i64(panel_));
        const auto at = [&](Value* k, Value* j) { return add(scaled(k, panel_), j); };
        loop(How::serial, e_.i64(0), depth_, [&](Value* k) {
          loop(How::simd, e_.i64(0), columns,
               [&](Value* j) { store(copy, element(right_, k, add(start, j)), {at(k, j)}); });
        });
        Parts parts = ends(epilogue, start);
        parts.right = [&](Value* k, Value* j) { return load(copy, {at(k, j)}); };
        loop(How::serial, first, last,
             [&](Value* g) { group(scaled(g, kRows), rows_, e_.i64(0), columns, depth_, parts); });
      });
    });
  }

  /// The elements below the diagonal from those above it: the same products, added up in the same order. With an
  /// epilogue, what becomes of both.
  void mirror(const MatrixProduct::Epilogue* epilogue) {
    const auto take = [&](Value* sum, Value* i, Value* j) {
      if (epilogue) {
        epilogue->store(epilogue->value(sum, i, j), i, j);
      } else {
        store(sums_, sum, {i, j});
      }
    };
    loop(How::parallel, e_.i64(0), ceiling(rows_, e_.i64(kMirrored)), [&](Value* block) {
      Value* top = scaled(block, kMirrored);
      Value* bottom = least(add(top, e_.i64(kMirrored)), rows_);
      if (epilogue) {
        loop(How::serial, top, bottom, [&](Value* i) {
          loop(How::simd, i, columns_, [&](Value* j) { take(load(sums_, {i, j}), i, j); });
        });
      }
      loop(How::serial, e_.i64(0), add(block, e_.i64(1)), [&](Value* across) {
        Value* from = scaled(across, kMirrored);
        loop(How::serial, top, bottom, [&](Value* i) {
          loop(How::simd, from, least(add(from, e_.i64(kMirrored)), i), [&](Value* j) {
            take(load(sums_, {j, i}), i, j);
          });
        });
      });
    });
  }

  /// An array for the sums that nobody sees. Vectors of rows that begin with a cache line are each in one; their number
  /// of lines is odd, so that rows below each other fall into different sets of the caches.
  Value* in_lines() {
    const int64_t line = kCacheLine / ir::size_of(dtype_);
    Value* lines = e_.op(Opcode::or_, {ceiling(columns_, e_.i64(line)), e_.i64(1)});
    return array({rows_, scaled(lines, line)});
  }

  void packed() {
    Value* blocks = e_.at_least_one(ceiling(depth_, e_.i64(size_.depth)));
    Value* block_depth = ceiling(depth_, blocks);
    Value* parts = e_.at_least_one(ceiling(columns_, e_.i64(widest_ * beside_)));
    Value* width = multiple(ceiling(columns_, scaled(parts, beside_)), panel_);
    Value* right = array({e_.i64(beside_), scaled(width, size_.depth)});
    // Workers that are through take blocks of rows from those that are not.
    Value* some = multiple(ceiling(height_of_region(), e_.i64(kTimesOfEach)), kRows);
    Value* height = least(e_.op(Opcode::pymax_, {some, e_.i64(kFewRows)}), e_.i64(size_.rows));
    Value* times = ceiling(symmetric_ ? rows_ : height_of_region(), height);
    loop(How::serial, e_.i64(0), parts, [&](Value* part) {
      loop(How::serial, e_.i64(0), blocks, [&](Value* block) {
        Value* first = mul(block, block_depth);
        const Depth depth = {first, sub(least(add(first, block_depth), depth_), first), e_.eq(block, e_.i64(0))};
        Value* share = ceiling(depth.count, e_.i64(workers_ / beside_));
        loop(How::in_turn, e_.i64(0), e_.i64(workers_), [&](Value* worker) {
          Value* low = mul(e_.op(Opcode::floordiv_, {worker, e_.i64(beside_)}), share);
          copy_right(right, region(worker, part, width), depth.first, low, least(add(low, share), depth.count));
        });
        loop(How::dealt, e_.i64(0), scaled(times, workers_), [&](Value* turn) {
          Value* owner = e_.op(Opcode::mod_, {turn, e_.i64(workers_)});
          Region of = region(owner, part, width);
          Value* time = e_.op(Opcode::floordiv_, {turn, e_.i64(workers_)});
          of.top = least(add(of.top, mul(time, height)), of.bottom);
          of.bottom = least(add(of.top, height), of.bottom);
          product(right, of, depth);
        });
      });
    });
  }

  /// Products that are added up at a time.
  struct Depth {
    Value *first, *count;
    Value* begins;  // a condition: there are no sums so far
  };
  /// Rows and columns of the result. The columns' panels are copied as number `place`; those before `skipped` lie below
  /// the diagonal.
  struct Region {
    Value *top, *bottom, *place, *from, *to, *skipped;
  };

  Value* height_of_region() { return multiple(ceiling(rows_, e_.i64(workers_ / beside_)), kRows); }

  /// A worker's rows, and its columns of a part of all. Of a triangle at and above the diagonal a band of rows of the
  /// same area as the others: so a row is copied once, and a column for each band that it crosses.
  Region region(Value* worker, Value* part, Value* width) {
    Value* place = e_.op(Opcode::mod_, {worker, e_.i64(beside_)});
    Value* from = least(mul(add(scaled(part, beside_), place), width), columns_);
    Value* to = least(add(from, width), columns_);
    if (symmetric_) {
      Value *top = above(worker), *bottom = above(add(worker, e_.i64(1)));
      Value* skipped = e_.op(Opcode::floordiv_, {sub(top, from), e_.i64(panel_)});
      return {top, bottom, place, from, to, e_.op(Opcode::pymax_, {skipped, e_.i64(0)})};
    }
    Value* height = height_of_region();
    Value* top = least(mul(e_.op(Opcode::floordiv_, {worker, e_.i64(beside_)}), height), rows_);
    return {top, least(add(top, height), rows_), place, from, to, e_.i64(0)};
  }

  /// Rows above a band: of its part of all bands' area, which is n^2 - (n - rows)^2 of n^2.
  Value* above(Value* band) {
    Value* count = e_.f64(static_cast<double>(workers_));
    Value* below = e_.op(Opcode::sub_, {e_.f64(1), e_.op(Opcode::div_, {e_.cast(band, DType::f64_), count})});
    Value* part = e_.op(Opcode::sub_, {e_.f64(1), e_.op(Opcode::sqrt_, {below})});
    Value* rows = e_.cast(e_.op(Opcode::mul_, {e_.cast(rows_, DType::f64_), part}), DType::i64_);
    return least(multiple(rows, kRows), rows_);
  }

  /// Adds the product of a block of rows and of columns that have been copied to the sums so far.
  void product(Value* right, const Region& of, const Depth& depth) {
    Value* left = array({e_.i64(size_.rows * size_.depth)});
    copy_left(left, of, depth);
    loop(How::serial, of.skipped, ceiling(sub(of.to, of.from), e_.i64(panel_)), [&](Value* panel) {
      Value* start = add(of.from, scaled(panel, panel_));
      // Rows at or above the panel's last column.
      Value* bottom = symmetric_ ? least(of.bottom, add(start, e_.i64(panel_))) : of.bottom;
      loop(How::serial, e_.i64(0), ceiling(sub(bottom, of.top), e_.i64(kRows)), [&](Value* g) {
        Value* row = scaled(g, kRows);
        Value* corner = in_block(row, e_.i64(0));
        Parts parts;
        parts.left = [&](int64_t m, Value*, Value* k) {
          Value* start_of_row = add(corner, e_.i64(left_down_ ? m : m * size_.depth));
          return load(left, {add(start_of_row, scaled(k, left_down_ ? kRows : 1))});
        };
        parts.right = [&](Value* k, Value* j) { return load(right, {of.place, in_panel(panel, k, j)}); };
        parts.value = [&](Value* sum, Value* i, Value* j) {
          // What lies there before the first block counts for nothing: so no loop has to clear it.
          return add(e_.select(depth.begins, e_.number(dtype_, 0), load(sums_, {i, add(start, j)})), sum);
        };
        parts.store = [&](Value* v, Value* i, Value* j) { store(sums_, v, {i, add(start, j)}); };
        group(add(of.top, row), of.bottom, e_.i64(0), columns_of(panel, of), depth.count, parts);
      });
    });
  }

  /// The left block keeps the order of its source, by groups of rows where that is the columns'.
  Value* in_block(Value* row, Value* k) {
    if (!left_down_) return add(scaled(row, size_.depth), k);
    Value* group = e_.op(Opcode::floordiv_, {row, e_.i64(kRows)});
    Value* in_group = e_.op(Opcode::mod_, {row, e_.i64(kRows)});
    return add(add(scaled(group, kRows * size_.depth), scaled(k, kRows)), in_group);
  }

  /// The right factor's panels lie one after the other, rows of a panel one below the other.
  Value* in_panel(Value* panel, Value* k, Value* column) {
    return add(add(scaled(panel, size_.depth * panel_), scaled(k, panel_)), column);
  }

  Value* columns_of(Value* panel, const Region& of) {
    return least(sub(sub(of.to, of.from), scaled(panel, panel_)), e_.i64(panel_));
  }

  void copy_left(Value* left, const Region& of, const Depth& depth) {
    Value *height = sub(of.bottom, of.top), *last = sub(height, e_.i64(1));
    const auto copy = [&](Value* row, Value* k, Value* to) {
      store(left, element(left_, add(of.top, row), add(depth.first, k)), {to});
    };
    Value* copied = e_.i64(0);
    if (left_down_) {
      // Along the rows of memory. A group's rows are a number that is known, so whole vectors do all of them.
      Value* groups = e_.op(Opcode::floordiv_, {height, e_.i64(kRows)});
      copied = scaled(groups, kRows);
      loop(How::serial, e_.i64(0), depth.count, [&](Value* k) {
        loop(How::serial, e_.i64(0), groups, [&](Value* group) {
          Value* row = scaled(group, kRows);
          loop(How::simd, e_.i64(0), e_.i64(kRows), [&](Value* i) { copy(add(row, i), k, add(in_block(row, k), i)); });
        });
      });
    }
    loop(How::serial, copied, multiple(height, kRows), [&](Value* i) {
      loop(How::simd, e_.i64(0), depth.count, [&](Value* k) { copy(least(i, last), k, in_block(i, k)); });
    });
  }

  /// Rows [low, high) of those from `first` on.
  void copy_right(Value* right, const Region& of, Value* first, Value* low, Value* high) {
    Value* panels = ceiling(sub(of.to, of.from), e_.i64(panel_));
    const auto copy = [&](Value* p, Value* k, int64_t together) {
      loop(How::simd, e_.i64(0), columns_of(p, of), [&](Value* j) {
        Value* column = add(add(of.from, scaled(p, panel_)), j);
        std::vector<Value*> taken;
        const auto row = [&](int64_t u) { return u ? add(k, e_.i64(u)) : k; };
        for (int64_t u = 0; u < together; ++u) taken.push_back(element(right_, add(first, row(u)), column));
        for (int64_t u = 0; u < together; ++u) {
          store(right, taken[static_cast<size_t>(u)], {of.place, in_panel(p, row(u), j)});
        }
      });
    };
    if (right_down_) {
      // As many neighbours as a line has: vectors of them are transposed (csrc/cpu/vector_strided.cpp).
      const int64_t size = ir::size_of(right_->dtype), line = size < 4 ? 1 : kCacheLine / size;
      Value* squares = e_.op(Opcode::floordiv_, {sub(high, low), e_.i64(line)});
      Value* whole = add(low, scaled(squares, line));
      loop(How::serial, e_.i64(0), panels, [&](Value* p) {
        loop(How::serial, e_.i64(0), squares, [&](Value* n) { copy(p, add(low, scaled(n, line)), line); });
        loop(How::serial, whole, high, [&](Value* k) { copy(p, k, 1); });
      });
    } else {
      // Along the rows: of memory that lies in order the processor fetches what comes next.
      loop(How::serial, low, high,
           [&](Value* k) { loop(How::serial, e_.i64(0), panels, [&](Value* p) { copy(p, k, 1); }); });
    }
  }

  Context& c_;
  Emit e_;
  const DType dtype_;
  const TensorRef left_, right_, out_;
  Value* sums_ = out_->base.value;  // where products are added up
  Value *const rows_, *const columns_, *const depth_;
  const int64_t workers_;
  const bool symmetric_;               // the left factor is the right one's transpose
  const int64_t beside_;               // workers whose columns lie beside each other
  const bool left_down_, right_down_;  // neighbours in memory lie below each other
  BlockSize size_;
  const int64_t panel_, widest_;  // columns of a panel, and of what is copied at a time
};

}  // namespace

TensorRef product_in_tiles(Context& c, DType dtype, const TensorRef& left, const TensorRef& right) {
  const auto in_memory = [&](const TensorRef& t) { return t->is_view() ? t : materialised(c, t); };
  const TensorRef x = in_memory(left), y = in_memory(right);
  Value* const shape[] = {x->shape[0], y->shape[1]};
  finish_product(c);
  const TensorRef out = allocate(c, dtype, shape);
  const auto tiles = std::make_shared<Tiles>(c, dtype, x, y, out);
  if (std::shared_ptr<MatrixProduct>* waiting = c.product()) {
    *waiting = std::make_shared<MatrixProduct>(
        MatrixProduct{out, {x, y}, [tiles](const MatrixProduct::Epilogue* epilogue) { tiles->emit(epilogue); }});
  } else {
    tiles->emit(nullptr);
  }
  return out;
}

}  // namespace appy::trace
