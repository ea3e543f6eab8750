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
/// left one in the second, and the panels of a tile in the third. With 32 registers panels have four vectors: a row
/// serves six rows of sums for as long as the second cache takes for the next one.
struct BlockSize {
  int64_t panel_bytes, depth, rows;
};
constexpr BlockSize kAvx512{256, 256, 240}, kAvx2{64, 320, 120};
/// Panels of four vectors need no copies as long as one stays in the second cache and the right factor lies on few
/// pages. Zen 4, two threads, with copies and without: 1.34 and 1.26 ms (350 x 350 x 550), 4.0 and 2.3 (2000 x 16 x
/// 2000); of the right factor alone 403 and 441 (2500 x 3000 x 2750).
constexpr int64_t kDeepest = 512, kStays = int64_t{6} << 20;
/// Rows a multiple of so many bytes apart fall into few sets of the caches: 768 columns of float64, on a Xeon, 13 ms
/// with copies and 18 without.
constexpr int64_t kFewSets = 2048;
/// The largest tile: the larger it is, the fewer times a factor is copied.
constexpr int64_t kTileRows = 2400;
constexpr int64_t kTileBytes = 32768;
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
        symmetric_(same_view(*left_, *transposed(c, right_))),
        left_down_(runs_down(left_)),
        right_down_(runs_down(right_)),
        size_(c.registers() > 16 ? kAvx512 : kAvx2),
        panel_(size_.panel_bytes / ir::size_of(dtype)),
        widest_(kTileBytes / ir::size_of(dtype)) {}

  bool symmetric() const { return symmetric_; }

  void emit(const MatrixProduct::Epilogue* epilogue) {
    Value* work = mul(mul(rows_, columns_), depth_);
    Value* small = e_.le(work, e_.i64(right_down_ ? kSmallGathered : kSmall));
    ir::Builder& b = c_.builder();
    const ir::Op* arms = b.if_op(in_panels() && !symmetric_ ? e_.either(small, stays()) : small, {});
    ir::Block* outer = b.block();
    b.set_block(arms->blocks[0]);
    in_place(epilogue);
    b.yield({});
    b.set_block(arms->blocks[1]);
    packed();
    if (epilogue) epilogue->apart();
    b.yield({});
    b.set_block(outer);
  }

 private:
  using Body = std::function<void(Value*)>;
  enum class How : uint8_t { serial, parallel, simd };

  /// Can panels of four vectors be read from the right factor itself?
  bool in_panels() const { return c_.registers() > 16 && right_->dtype == dtype_ && runs(reads_of(right_)[0]) == 1; }
  /// Are they to be, of one that is not small?
  Value* stays() {
    const Traced& base = reads_of(right_)[0].view->base;
    const int along = base.value->type.layout == ir::Layout::f ? 0 : base.value->type.rank - 1;
    Value* apart = scaled(c_.extent(base, along), ir::size_of(dtype_));
    Value* fits = e_.both(e_.le(depth_, e_.i64(kDeepest)), e_.le(mul(depth_, apart), e_.i64(kStays)));
    return e_.both(fits, e_.ne(e_.op(Opcode::mod_, {apart, e_.i64(kFewSets)}), e_.i64(0)));
  }

  static bool runs_down(const TensorRef& t) { return loop_order(reads_of(t), 2).back() == 0; }

  Value* add(Value* a, Value* b) { return e_.op(Opcode::add_, {a, b}); }
  Value* sub(Value* a, Value* b) { return e_.op(Opcode::sub_, {a, b}); }
  Value* mul(Value* a, Value* b) { return e_.op(Opcode::mul_, {a, b}); }
  Value* least(Value* a, Value* b) { return e_.op(Opcode::pymin_, {a, b}); }
  Value* ceiling(Value* n, Value* by) { return e_.ceiling(n, by); }
  Value* scaled(Value* v, int64_t by) { return by == 1 ? v : mul(v, e_.i64(by)); }

  void loop(How how, Value* low, Value* high, const Body& body) {
    ir::Loop attributes;
    attributes.parallel = how == How::parallel;
    // Tiles of a triangle are not alike.
    if (attributes.parallel && symmetric_) attributes.schedule = ir::Schedule::dynamic;
    attributes.simd = how == How::simd;
    attributes.annotated = true;
    emit_loop(c_, low, high, std::move(attributes), body);
  }

  Value* element(const TensorRef& t, Value* i, Value* j) {
    Value* const at[] = {i, j};
    return cast_element(c_, t->at(c_, at), dtype_);
  }

  Value* load(const TensorRef& array, Value* at) {
    Value* const index[] = {at};
    return c_.builder().load(array->base.value, index);
  }

  void store(const TensorRef& array, Value* v, Value* at) {
    Value* const index[] = {at};
    c_.builder().store(v, array->base.value, index);
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

  void in_place(const MatrixProduct::Epilogue* epilogue) {
    Parts parts;
    parts.left = [&](int64_t, Value* row, Value* k) { return element(left_, row, k); };
    parts.right = [&](Value* k, Value* column) { return element(right_, k, column); };
    if (epilogue) {
      parts.value = epilogue->value;
      parts.store = epilogue->store;
    } else {
      parts.value = [](Value* sum, Value*, Value*) { return sum; };
      parts.store = [&](Value* v, Value* row, Value* column) { put(v, row, column); };
    }
    Value* groups = ceiling(rows_, e_.i64(kRows));
    if (!in_panels()) {
      loop(How::parallel, e_.i64(0), groups,
           [&](Value* g) { group(scaled(g, kRows), rows_, e_.i64(0), columns_, depth_, parts); });
      return;
    }
    // Each worker goes down its rows with one panel after the other; where there are few rows, down fewer with some of
    // the panels.
    Value* workers = e_.i64(std::max(1, c_.workers()));
    Value* many = e_.ge(groups, scaled(workers, kGroupsOfEach));
    Value* height = e_.select(many, ceiling(groups, workers), e_.i64(1));
    Value* strips = e_.select(many, e_.i64(1), ceiling(scaled(workers, kGroupsOfEach), e_.at_least_one(groups)));
    Value* panels = ceiling(columns_, e_.i64(panel_));
    Value* width = ceiling(panels, strips);
    loop(How::parallel, e_.i64(0), mul(ceiling(groups, height), strips), [&](Value* share) {
      Value* first = mul(e_.op(Opcode::floordiv_, {share, strips}), height);
      Value* last = least(add(first, height), groups);
      Value* from = mul(e_.op(Opcode::mod_, {share, strips}), width);
      loop(How::serial, from, least(add(from, width), panels), [&](Value* p) {
        Value* low = scaled(p, panel_);
        Value* high = least(add(low, e_.i64(panel_)), columns_);
        loop(How::serial, first, last, [&](Value* g) { group(scaled(g, kRows), rows_, low, high, depth_, parts); });
      });
    });
  }

  void put(Value* v, Value* row, Value* column) {
    Value* const at[] = {row, column};
    c_.builder().store(v, out_->base.value, at);
  }

  /// The elements below the diagonal from those above it: the same products, added up in the same order.
  void mirror() {
    loop(How::parallel, e_.i64(0), ceiling(rows_, e_.i64(kMirrored)), [&](Value* block) {
      Value* top = scaled(block, kMirrored);
      Value* bottom = least(add(top, e_.i64(kMirrored)), rows_);
      loop(How::serial, e_.i64(0), add(block, e_.i64(1)), [&](Value* across) {
        Value* from = scaled(across, kMirrored);
        loop(How::serial, top, bottom, [&](Value* i) {
          loop(How::simd, from, least(add(from, e_.i64(kMirrored)), i), [&](Value* j) {
            Value *const to[] = {i, j}, *const source[] = {j, i};
            c_.builder().store(c_.builder().load(out_->base.value, source), out_->base.value, to);
          });
        });
      });
    });
  }

  void packed() {
    Value* blocks = e_.at_least_one(ceiling(depth_, e_.i64(size_.depth)));
    Value* block_depth = ceiling(depth_, blocks);
    if (symmetric_) {
      bands(blocks, block_depth);
      mirror();
      return;
    }
    const auto [down, across] = tiles();
    Value* height = scaled(ceiling(ceiling(rows_, down), e_.i64(kRows)), kRows);
    Value* width = width_of(columns_, across);
    loop(How::parallel, e_.i64(0), mul(down, across), [&](Value* tile) {
      Value* top = least(mul(e_.op(Opcode::floordiv_, {tile, across}), height), rows_);
      Value* bottom = least(add(top, height), rows_);
      Value* from = least(mul(e_.op(Opcode::mod_, {tile, across}), width), columns_);
      Value* to = least(add(from, width), columns_);
      tile_of(top, bottom, from, to, blocks, block_depth);
    });
  }

  Value* width_of(Value* columns, Value* across) {
    return scaled(ceiling(ceiling(columns, across), e_.i64(panel_)), panel_);
  }

  /// How many tiles lie below and beside each other: of equal size, and as many for each worker.
  std::pair<Value*, Value*> tiles() {
    const int64_t workers = std::max(1, c_.workers());
    int64_t beside = 1;
    for (int64_t n = 1; n * n <= workers; n++) {
      if (workers % n == 0) beside = n;
    }
    const auto multiple = [&](Value* extent, int64_t largest, int64_t of) {
      return scaled(e_.at_least_one(ceiling(extent, e_.i64(largest * of))), of);
    };
    return {multiple(rows_, kTileRows, workers / beside), multiple(columns_, widest_, beside)};
  }

  /// The triangle at and above the diagonal as a band of rows for each worker, of equal area: so a row is copied once,
  /// and a column for each band that it crosses.
  void bands(Value* blocks, Value* block_depth) {
    const int64_t workers = std::max(1, c_.workers());
    const auto count = static_cast<double>(workers);
    // Rows above a band: of `part` of all bands' area, which is n^2 - (n - rows)^2 of n^2.
    const auto above = [&](Value* band) {
      Value* below = e_.op(Opcode::sub_, {e_.f64(1), e_.op(Opcode::div_, {e_.cast(band, DType::f64_), e_.f64(count)})});
      Value* part = e_.op(Opcode::sub_, {e_.f64(1), e_.op(Opcode::sqrt_, {below})});
      Value* rows = e_.cast(e_.op(Opcode::mul_, {e_.cast(rows_, DType::f64_), part}), DType::i64_);
      return least(scaled(ceiling(rows, e_.i64(kRows)), kRows), rows_);
    };
    Value* across = ceiling(columns_, e_.i64(widest_));
    loop(How::parallel, e_.i64(0), mul(e_.i64(workers), across), [&](Value* tile) {
      Value* band = e_.op(Opcode::floordiv_, {tile, across});
      Value *top = above(band), *bottom = above(add(band, e_.i64(1)));
      Value* width = width_of(sub(columns_, top), across);
      Value* from = least(add(top, mul(e_.op(Opcode::mod_, {tile, across}), width)), columns_);
      tile_of(top, bottom, from, least(add(from, width), columns_), blocks, block_depth);
    });
  }

  void tile_of(Value* top, Value* bottom, Value* from, Value* to, Value* blocks, Value* block_depth) {
    Value* const left_size[] = {e_.i64(size_.rows * size_.depth)};
    Value* const right_size[] = {e_.i64(size_.depth * widest_)};
    const TensorRef left = allocate(c_, dtype_, left_size), right = allocate(c_, dtype_, right_size);
    loop(How::serial, top, bottom, [&](Value* i) {
      // A group of rows computes the panels that its first row begins in, or before.
      Value* begin = symmetric_ ? e_.op(Opcode::pymax_, {from, sub(i, e_.i64(kRows + panel_))}) : from;
      loop(How::simd, begin, to, [&](Value* j) {
        Value* const at[] = {i, j};
        c_.builder().store(e_.number(dtype_, 0), out_->base.value, at);
      });
    });
    loop(How::serial, e_.i64(0), blocks, [&](Value* block) {
      Value* first = mul(block, block_depth);
      Value* depth = sub(least(add(first, block_depth), depth_), first);
      copy_right(right, from, to, first, depth);
      loop(How::serial, e_.i64(0), ceiling(sub(bottom, top), e_.i64(size_.rows)), [&](Value* b) {
        Value* begin = add(top, scaled(b, size_.rows));
        Value* end = least(add(begin, e_.i64(size_.rows)), bottom);
        copy_left(left, begin, end, first, depth);
        block_product(left, right, begin, end, from, to, depth);
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

  Value* columns_of(Value* panel, Value* from, Value* to) {
    return least(sub(sub(to, from), scaled(panel, panel_)), e_.i64(panel_));
  }

  void copy_left(const TensorRef& left, Value* top, Value* bottom, Value* first, Value* depth) {
    Value *height = sub(bottom, top), *last = sub(bottom, e_.i64(1));
    const auto copy = [&](Value* row, Value* k, Value* to) { store(left, element(left_, row, add(first, k)), to); };
    if (left_down_) {
      // Along the rows of memory. A group's rows are a number that is known, so whole vectors do all of them.
      Value* whole = e_.op(Opcode::floordiv_, {height, e_.i64(kRows)});
      loop(How::serial, e_.i64(0), depth, [&](Value* k) {
        const auto some = [&](Value* group, Value* count) {
          loop(How::simd, e_.i64(0), count, [&](Value* i) {
            Value* row = add(scaled(group, kRows), i);
            copy(add(top, row), k, add(add(scaled(group, kRows * size_.depth), scaled(k, kRows)), i));
          });
        };
        loop(How::serial, e_.i64(0), whole, [&](Value* group) { some(group, e_.i64(kRows)); });
        some(whole, sub(height, scaled(whole, kRows)));
      });
    }
    loop(How::serial, left_down_ ? height : e_.i64(0), scaled(ceiling(height, e_.i64(kRows)), kRows), [&](Value* i) {
      loop(How::simd, e_.i64(0), depth, [&](Value* k) { copy(least(add(top, i), last), k, in_block(i, k)); });
    });
  }

  void copy_right(const TensorRef& right, Value* from, Value* to, Value* first, Value* depth) {
    Value* panels = ceiling(sub(to, from), e_.i64(panel_));
    const auto copy = [&](Value* p, Value* k, Value* j) {
      Value* column = add(add(from, scaled(p, panel_)), j);
      store(right, element(right_, add(first, k), column), in_panel(p, k, j));
    };
    if (right_down_) {
      loop(How::serial, e_.i64(0), panels, [&](Value* p) {
        loop(How::serial, e_.i64(0), columns_of(p, from, to),
             [&](Value* j) { loop(How::serial, e_.i64(0), depth, [&](Value* k) { copy(p, k, j); }); });
      });
    } else {
      // Along the rows: of memory that lies in order the processor fetches what comes next.
      loop(How::serial, e_.i64(0), depth, [&](Value* k) {
        loop(How::serial, e_.i64(0), panels,
             [&](Value* p) { loop(How::simd, e_.i64(0), columns_of(p, from, to), [&](Value* j) { copy(p, k, j); }); });
      });
    }
  }

  void block_product(const TensorRef& left, const TensorRef& right, Value* top, Value* bottom, Value* from, Value* to,
                     Value* depth) {
    Value* groups = ceiling(sub(bottom, top), e_.i64(kRows));
    loop(How::serial, e_.i64(0), ceiling(sub(to, from), e_.i64(panel_)), [&](Value* p) {
      Value* start = add(from, scaled(p, panel_));
      // Groups of rows that begin above the panel's last column.
      Value* above = symmetric_ ? ceiling(sub(add(start, e_.i64(panel_)), top), e_.i64(kRows)) : groups;
      loop(How::serial, e_.i64(0), least(groups, above), [&](Value* g) {
        Value* row = scaled(g, kRows);
        Value* corner = in_block(row, e_.i64(0));
        Parts parts;
        parts.left = [&](int64_t m, Value*, Value* k) {
          Value* start_of_row = add(corner, e_.i64(left_down_ ? m : m * size_.depth));
          return load(left, add(start_of_row, scaled(k, left_down_ ? kRows : 1)));
        };
        parts.right = [&](Value* k, Value* j) { return load(right, in_panel(p, k, j)); };
        parts.value = [&](Value* sum, Value* i, Value* j) {
          Value* const at[] = {i, add(start, j)};
          return add(c_.builder().load(out_->base.value, at), sum);
        };
        parts.store = [&](Value* v, Value* i, Value* j) { put(v, i, add(start, j)); };
        group(add(top, row), bottom, e_.i64(0), columns_of(p, from, to), depth, parts);
      });
    });
  }

  Context& c_;
  Emit e_;
  const DType dtype_;
  const TensorRef left_, right_, out_;
  Value *const rows_, *const columns_, *const depth_;
  const bool symmetric_;               // the left factor is the right one's transpose
  const bool left_down_, right_down_;  // neighbours in memory lie below each other
  const BlockSize size_;
  const int64_t panel_, widest_;  // columns of a panel, and of the widest tile
};

}  // namespace

TensorRef product_in_tiles(Context& c, DType dtype, const TensorRef& left, const TensorRef& right) {
  const auto in_memory = [&](const TensorRef& t) { return t->is_view() ? t : materialised(c, t); };
  const TensorRef x = in_memory(left), y = in_memory(right);
  Value* const shape[] = {x->shape[0], y->shape[1]};
  finish_product(c);
  const TensorRef out = allocate(c, dtype, shape);
  const auto tiles = std::make_shared<Tiles>(c, dtype, x, y, out);
  if (std::shared_ptr<MatrixProduct>* waiting = c.product(); waiting && !tiles->symmetric()) {
    *waiting = std::make_shared<MatrixProduct>(
        MatrixProduct{out, {x, y}, [tiles](const MatrixProduct::Epilogue* epilogue) { tiles->emit(epilogue); }});
  } else {
    tiles->emit(nullptr);
  }
  return out;
}

}  // namespace appy::trace
