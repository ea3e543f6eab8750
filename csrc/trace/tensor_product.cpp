// Products with sums over common dimensions: matmul, dot, outer, einsum.
#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "ir/builder.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/tensor_mapping.h"

namespace appy::trace {
namespace {

using ir::Value;

/// Columns that one worker takes at a time, at most, where rows are added to rows: they stay in its caches.
constexpr int64_t column_block = 2048;
/// With fewer columns one worker has too short a stretch of each row.
constexpr int64_t few_columns = 256;
constexpr int64_t rows_together = 8;

/// Workers that have stretches of rows that are long enough.
Value* beside(Emit& e, Value* columns, int64_t workers) {
  if (workers == 1) return e.i64(1);
  return e.at_least_one(e.op(Opcode::pymin_, {e.ceiling(columns, e.i64(few_columns)), e.i64(workers)}));
}

/// The number of blocks of columns: as many for each worker that has some.
Value* blocks_of(Emit& e, Value* columns, int64_t workers) {
  Value* rounds = e.at_least_one(e.ceiling(columns, e.i64(workers * column_block)));
  return workers == 1 ? rounds : e.op(Opcode::mul_, {beside(e, columns, workers), rounds});
}

/// The rows in [first, last), several at a time: their sums are loaded and stored less often, and memory answers more
/// streams faster.
void each_row(Context& c, Value* first, Value* last, const std::function<void(std::span<Value* const>)>& body) {
  Emit e(c);
  Value* together = e.i64(rows_together);
  Value* groups = e.op(Opcode::floordiv_, {e.op(Opcode::sub_, {last, first}), together});
  emit_loop(c, e.i64(0), groups, {}, [&](Value* group) {
    std::vector<Value*> rows;
    Value* start = e.op(Opcode::add_, {first, e.op(Opcode::mul_, {group, together})});
    for (int64_t r = 0; r < rows_together; r++) rows.push_back(r ? e.op(Opcode::add_, {start, e.i64(r)}) : start);
    body(rows);
  });
  emit_loop(c, e.op(Opcode::add_, {first, e.op(Opcode::mul_, {groups, together})}), last, {}, [&](Value* row) {
    body({&row, 1});
  });
}

[[noreturn]] void refuse_shapes(Context& c, const char* what) {
  refuse(c, AbortId::operands_, std::string("a ") + what + " of arrays with these numbers of dimensions");
}

/// The reads of the operands, with labels for dimensions.
std::vector<Read> labelled_reads(std::span<const TensorRef> operands, std::span<const std::vector<int>> labels) {
  std::vector<Read> out;
  for (size_t k = 0; k < operands.size(); k++) {
    for (Read read : reads_of(operands[k])) {
      for (int& d : read.dims) d = d < 0 ? -1 : labels[k][static_cast<size_t>(d)];
      out.push_back(std::move(read));
    }
  }
  return out;
}

/// The elements in a narrower type.
TensorRef rounded(const TensorRef& t, DType to) {
  Tensor out;
  out.dtype = to;
  out.shape = t->shape;
  out.heavy = t->heavy;
  out.lanes_inside = t->lanes_inside;
  out.reads = reads_of(t);
  out.at = [t, to](Context& context, Index index) {
    return np_scalar(Emit(context).cast(t->at(context, index).value, to));
  };
  return std::make_shared<const Tensor>(std::move(out));
}

/// The factors of a product of matrices, the left one with the result's rows, or nulls: it is another contraction.
std::array<TensorRef, 2> matrix_factors(Context& c, std::span<const TensorRef> operands,
                                        std::span<const std::vector<int>> labels, size_t free, size_t sums) {
  if (operands.size() != 2 || free != 2 || sums != 1) return {};
  std::array<TensorRef, 2> factors;
  for (size_t k = 0; k < 2; k++) {
    std::vector<int> sorted = labels[k];
    std::sort(sorted.begin(), sorted.end());
    if (sorted.size() != 2 || sorted[1] != 2 || sorted[0] == 2) return {};
    if (is_one(operands[k]->shape[0]) || is_one(operands[k]->shape[1])) return {};
    // Rows first, then what is summed over; the right factor the other way round.
    const bool turned = (sorted[0] == 0) == (labels[k][0] == 2);
    TensorRef& factor = factors[static_cast<size_t>(sorted[0])];
    if (factor) return {};
    factor = turned ? transposed(c, operands[k]) : operands[k];
  }
  return factors;
}

/// Do the items want other loops than those over tiles, which divide rows and columns and have lanes in columns?
bool arranges(std::span<const Said> said) {
  return said[0].simd || said[2].simd ||
         std::any_of(said.begin(), said.end(), [](const Said& s) { return s.small || s.block || s.in_reg; });
}

/// Is the statement in loops that all run in order, one at least?
bool runs_again(Context& c) {
  const ir::Op* loop = ir::enclosing_loop(*c.builder().block());
  if (!loop) return false;
  for (; loop; loop = ir::enclosing_loop(*loop->parent)) {
    if (loop->code == Opcode::for_ && (loop->loop->parallel || loop->loop->simd)) return false;
  }
  return true;
}

/// Sums down columns, for the j-th one of term(i, j) over all rows, where a loop comes back to them: each worker adds
/// up the rows that are its own in loops over rows, too, and has in its caches. Of few rows several workers divide the
/// columns of the same ones; of very few, or where there are many more columns, each adds up all rows of its columns.
class SumsOfRows {
 public:
  using Term = std::function<Value*(Value* row, Value* column)>;

  SumsOfRows(Context& c, DType dtype, Value* rows, Value* columns, bool lanes, int64_t le, Opcode add, Term term)
      : c_(c),
        e_(c),
        dtype_(dtype),
        rows_(rows),
        columns_(columns),
        lanes_(lanes),
        le_(le),
        add_(add),
        term_(std::move(term)) {}

  void emit(const std::function<void(Value* sum, Value* column)>& store) {
    const int64_t workers = c_.workers();
    Value *parts = e_.i64(1), *blocks = blocks_of(e_, columns_, workers);
    Value* narrow = e_.le(columns_, mul(rows_, e_.i64(kMostColumns)));
    for (int halves = std::bit_width(static_cast<uint64_t>(workers)) - 2; halves >= 0; --halves) {
      const int64_t n = workers >> halves;
      // What a worker has must be much more than the sums of all.
      Value* tall = e_.both(e_.ge(rows_, e_.i64(kRowsOfEach * n * n)), narrow);
      parts = e_.select(tall, e_.i64(n), parts);
      blocks = e_.select(tall, beside(e_, columns_, workers / n), blocks);
    }
    Value* const shape[] = {parts, columns_};
    partial_ = allocate(c_, dtype_, shape);
    Value *height = e_.ceiling(rows_, parts), *width = e_.ceiling(columns_, blocks);
    loop(e_.i64(0), mul(parts, blocks), {.parallel = true}, [&](Value* share) {
      Value* part = e_.op(Opcode::floordiv_, {share, blocks});
      Value* top = least(mul(part, height), rows_);
      Value* first = mul(e_.op(Opcode::sub_, {share, mul(part, blocks)}), width);
      share_of(part, top, least(add(top, height), rows_), first, least(add(first, width), columns_));
    });
    loop(e_.i64(0), columns_, {.parallel = true, .simd = lanes_}, [&](Value* j) {
      Value* const zero[] = {load(e_.i64(0), j)};
      ir::Loop in_order;
      in_order.annotated = true;
      store(emit_loop(c_, e_.i64(1), parts, zero, in_order,
                      [&](Value* part, std::span<Value* const> sum) {
                        return std::vector<Value*>{e_.op(add_, {sum[0], load(part, j)})};
                      })[0],
            j);
    });
  }

 private:
  static constexpr int64_t kRowsOfEach = 8, kMostColumns = 4;
  struct How {
    bool parallel = false, simd = false;
  };

  Value* add(Value* a, Value* b) { return e_.op(Opcode::add_, {a, b}); }
  Value* mul(Value* a, Value* b) { return e_.op(Opcode::mul_, {a, b}); }
  Value* least(Value* a, Value* b) { return e_.op(Opcode::pymin_, {a, b}); }

  void loop(Value* low, Value* high, How how, const std::function<void(Value*)>& body) {
    ir::Loop attributes;
    attributes.parallel = how.parallel;
    attributes.simd = how.simd;
    if (how.simd) attributes.le = le_;
    attributes.annotated = true;
    emit_loop(c_, low, high, std::move(attributes), body);
  }

  Value* load(Value* part, Value* j) {
    Value* const at[] = {part, j};
    return c_.builder().load(partial_->base.value, at);
  }
  void store(Value* v, Value* part, Value* j) {
    Value* const at[] = {part, j};
    c_.builder().store(v, partial_->base.value, at);
  }

  void share_of(Value* part, Value* top, Value* bottom, Value* first, Value* last) {
    const auto columns = [&](const std::function<void(Value*)>& body) { loop(first, last, {.simd = lanes_}, body); };
    columns([&](Value* j) { store(e_.number(dtype_, 0), part, j); });
    const auto add_rows = [&](std::span<Value* const> rows) {
      columns([&](Value* j) {
        Value* sum = load(part, j);
        for (Value* row : rows) sum = e_.op(add_, {sum, term_(row, j)});
        store(sum, part, j);
      });
    };
    each_row(c_, top, bottom, add_rows);
  }

  Context& c_;
  Emit e_;
  const DType dtype_;
  Value *const rows_, *const columns_;
  const bool lanes_;
  const int64_t le_;
  const Opcode add_;
  const Term term_;
  TensorRef partial_;
};

}  // namespace

TensorRef contraction(Context& c, DType dtype, std::span<const TensorRef> given,
                      std::span<const std::vector<int>> given_labels, std::span<Value* const> given_extents, int free) {
  if (ir::is_half(dtype)) {
    return rounded(contraction(c, DType::f32_, given, given_labels, given_extents, free), dtype);
  }
  const std::vector<std::vector<int>> labels(given_labels.begin(), given_labels.end());
  const std::vector<Value*> extents(given_extents.begin(), given_extents.end());
  std::vector<TensorRef> operands;
  for (const TensorRef& t : given) {
    const bool repeated = given.size() > 1 || t->heavy;
    operands.push_back(t->heavy && repeated ? materialised(c, t) : t);
  }
  const auto result = static_cast<size_t>(free);
  const std::span<Value*const> shape(extents.data(), result), sums(extents.data() + result, extents.size() - result);
  if (c.exact() && ir::is_real(dtype)) refuse(c, AbortId::exact_function_, "a product of matrices");
  const bool boolean = dtype == DType::bool_;
  const auto term = [operands, labels, extents, dtype, boolean](Context& context, std::span<Value* const> at) {
    Emit e(context);
    Value* product = nullptr;
    for (size_t k = 0; k < operands.size(); k++) {
      std::vector<Value*> own;
      for (size_t d = 0; d < labels[k].size(); d++) {
        own.push_back(is_one(operands[k]->shape[d]) ? e.i64(0) : at[static_cast<size_t>(labels[k][d])]);
      }
      Value* x = cast_element(context, operands[k]->at(context, own), dtype);
      product = product ? e.op(boolean ? Opcode::and_ : Opcode::mul_, {product, x}) : x;
    }
    return product;
  };
  const Opcode add = boolean ? Opcode::or_ : Opcode::add_;
  const std::vector<Read> reads = labelled_reads(operands, labels);
  std::vector<Names> names(extents.size());
  for (size_t k = 0; k < operands.size(); k++) {
    const std::vector<Names> own = names_of(*operands[k]);
    for (size_t d = 0; d < labels[k].size(); d++) {
      if (!is_one(operands[k]->shape[d])) add_names(names[static_cast<size_t>(labels[k][d])], own[d]);
    }
  }
  const std::span<const Names> kept_names(names.data(), result);
  std::vector<InnerRef> dims;
  for (size_t d = result; d < extents.size(); d++) {
    dims.push_back(std::make_shared<const Dimension>(Dimension{extents[d], names[d], boolean ? "any" : "sum"}));
  }
  const std::vector<int> order = loop_order(reads, extents.size());
  const std::vector<Said> said = said_of(c, shape, kept_names, dims);
  const auto factors = matrix_factors(c, operands, labels, result, sums.size());
  if (!boolean && factors[0] && !arranges(said) && !c.for_device()) {
    plan(c, {shape, kept_names, dims, {}, false});  // settles what the items name
    return product_in_tiles(c, dtype, factors[0], factors[1]);
  }
  const std::vector<int> votes = votes_of(reads, extents.size());
  size_t inner = extents.empty() ? 0 : static_cast<size_t>(order.back());
  // Between a row of the result and a sum, as in a product of matrices, the row needs no strides.
  for (size_t d = 0; d < result; d++) {
    if (votes[d] > 0 && votes[d] >= votes[inner] && !is_one(extents[d])) inner = d;
  }
  for (size_t d = extents.size(); d-- > 0;) {
    if (said[d].simd && !is_one(extents[d])) inner = d;
  }
  const bool along_result = inner < result && !sums.empty();
  // Lanes are elements of the result, which stay in registers until their sums are complete: where an item says so, or
  // where they do not run along memory.
  const bool in_registers = along_result && !c.for_device() && (said[inner].in_reg || !votes[inner]);
  const bool rows = along_result && !in_registers && !c.for_device();
  if (!rows) {
    // The sum runs along memory: an accumulator for each element of the result.
    Tensor out;
    out.names.assign(kept_names.begin(), kept_names.end());
    out.inner = dims;
    for (const TensorRef& t : operands) add_inner(out.inner, t->inner);
    out.dtype = dtype;
    out.shape.assign(shape.begin(), shape.end());
    out.heavy = !sums.empty();
    out.lanes_inside = out.heavy && !in_registers;
    for (Read read : reads) {
      if (std::any_of(read.dims.begin(), read.dims.end(), [&](int d) { return d >= free; })) read.make_irregular();
      out.reads.push_back(std::move(read));
    }
    out.at = [term, extents, dims, result, add, dtype, in_registers](Context& context, Index index) {
      Emit e(context);
      std::vector<Value*> at(index.begin(), index.end());
      at.resize(extents.size());
      if (dims.empty()) return np_scalar(term(context, at));
      Value* const init[] = {e.number(dtype, 0)};
      return np_scalar(accumulate(context, dims, init, in_registers ? Order::kept : Order::any,
                                  [&](Index k, std::span<Value* const> carried) {
                                    std::copy(k.begin(), k.end(), at.begin() + static_cast<ptrdiff_t>(result));
                                    return std::vector<Value*>{e.op(add, {carried[0], term(context, at)})};
                                  })[0]);
    };
    return std::make_shared<const Tensor>(std::move(out));
  }
  // A dimension of the result runs along memory: rows are added to rows, a block of columns at a time.
  Emit e(c);
  const TensorRef out = allocate(c, dtype, shape, {kept_names.begin(), kept_names.end()});
  std::vector<Value*> others(shape.begin(), shape.end());
  others[inner] = e.i64(1);
  const bool alone = std::all_of(others.begin(), others.end(), is_one);
  const auto store = [&](Value* v, std::span<Value* const> at) {
    c.builder().store(v, out->base.value, at.subspan(0, result));
  };
  // The nest of all dimensions settles what the items name; its loops are made here, one by one.
  plan(c, {shape, kept_names, dims, {}, false});
  const bool lanes = c.auto_simd() || said[inner].simd;
  const bool threads = !said[inner].named() || (said[inner].parallel && !said[inner].small);
  if (alone && threads && !said[inner].block && dims.size() == 1 && c.workers() > 1 && runs_again(c)) {
    std::vector<Value*> at(extents.size(), e.i64(0));
    const auto element = [&](Value* row, Value* j) {
      at.back() = row;
      at[inner] = j;
      return term(c, at);
    };
    SumsOfRows(c, dtype, sums[0], extents[inner], lanes, said[inner].le, add, element).emit([&](Value* sum, Value* j) {
      at[inner] = j;
      store(sum, at);
    });
    return out;
  }
  const Mapping outer_loops = plan(c, {others, kept_names, {}, {}, false});
  const auto element = [&](Index rows_index) {
    std::vector<Value*> at(rows_index.begin(), rows_index.end());
    at.resize(extents.size());
    const auto loop = [&](Value* low, Value* high, bool blocks, const std::function<void(Value*)>& body) {
      ir::Loop attributes;
      attributes.parallel = blocks && threads;
      attributes.simd = !blocks && lanes;
      if (!blocks) attributes.le = said[inner].le;
      attributes.annotated = true;
      emit_loop(c, low, high, std::move(attributes), body);
    };
    const int64_t wanted = said[inner].block;
    Value* blocks = wanted ? e.ceiling(extents[inner], e.i64(wanted))
                           : blocks_of(e, extents[inner], alone && threads ? c.workers() : 1);
    Value* size = wanted ? e.i64(wanted) : e.ceiling(extents[inner], blocks);
    loop(e.i64(0), blocks, true, [&](Value* block) {
      Value* first = e.op(Opcode::mul_, {block, size});
      Value* last = e.op(Opcode::pymin_, {e.op(Opcode::add_, {first, size}), extents[inner]});
      loop(first, last, false, [&](Value* j) {
        at[inner] = j;
        store(e.number(dtype, 0), at);
      });
      const auto add_rows = [&](std::span<Value* const> rows) {
        loop(first, last, false, [&](Value* j) {
          at[inner] = j;
          Value* sum = c.builder().load(out->base.value, std::span<Value* const>(at).subspan(0, result));
          for (Value* row : rows) {
            at.back() = row;
            sum = e.op(add, {sum, term(c, at)});
          }
          store(sum, at);
        });
      };
      accumulate(c, std::span(dims).first(dims.size() - 1), {}, Order::kept, [&](Index k, std::span<Value* const>) {
        std::copy(k.begin(), k.end(), at.begin() + static_cast<ptrdiff_t>(result));
        each_row(c, e.i64(0), sums.back(), add_rows);
        return std::vector<Value*>{};
      });
    });
    return static_cast<Value*>(nullptr);
  };
  for_each(c, others, outer_loops, element, [](Index, Value*) {});
  return out;
}

namespace {

Traced finished(Context& c, TensorRef t) { return t->shape.empty() ? np_scalar(t->at(c, {}).value) : whole(t); }

}  // namespace

Traced matmul(Context& c, const Traced& a, const Traced& b, bool dot) {
  if (dot && (!is_tensor(a) || !is_tensor(b))) return binary(c, BinaryOp::multiply, a, b);
  const TensorRef x = as_tensor(c, a), y = as_tensor(c, b);
  if (!x || !y || x->rank() == 0 || y->rank() == 0 || x->rank() > 2 || y->rank() > 2)
    refuse_shapes(c, "matrix product");
  // np.dot and np.matmul say it in words of their own.
  require_same_extent(c, x->shape.back(), y->shape.front(),
                      {ir::CheckKind::aligned_, dot ? "dot" : "matmul", {x->shape, y->shape}});
  // Result dimensions first, then the common one.
  const int rows = x->rank() - 1, columns = y->rank() - 1, common = rows + columns;
  std::vector<Value*> extents;
  std::vector<int> left, right;
  if (rows) left.push_back(0), extents.push_back(x->shape[0]);
  if (columns) extents.push_back(y->shape[1]);
  extents.push_back(x->shape.back());
  left.push_back(common);
  right.push_back(common);
  if (columns) right.push_back(rows);
  const TensorRef operands[] = {x, y};
  const std::vector<int> labels[] = {left, right};
  return finished(c, contraction(c, promote(x->dtype, y->dtype), operands, labels, extents, common));
}

Traced outer(Context& c, const Traced& a, const Traced& b) {
  const TensorRef x = as_tensor(c, a), y = as_tensor(c, b);
  if (!x || !y || x->rank() != 1 || y->rank() != 1) refuse_shapes(c, "outer product");
  const int column[] = {0, -1};
  const Traced operands[] = {tensor(rearranged(c, x, column)), tensor(y)};
  return map(c, operands, [](Context& context, Scalars s) { return binary(context, BinaryOp::multiply, s[0], s[1]); });
}

Traced einsum(Context& c, const std::string& subscripts, std::span<const Traced> given) {
  std::string text;
  for (char ch : subscripts) {
    if (ch != ' ') text += ch;
  }
  const size_t arrow = text.find("->");
  const std::string inputs = text.substr(0, arrow);
  std::string output;
  if (arrow == std::string::npos) {
    // Letters that stand once, in alphabetical order.
    for (char ch = 'A'; ch <= 'z'; ch++) {
      if (std::isalpha(static_cast<unsigned char>(ch)) && std::count(inputs.begin(), inputs.end(), ch) == 1)
        output += ch;
    }
  } else {
    output = text.substr(arrow + 2);
  }
  std::vector<TensorRef> operands;
  std::vector<std::vector<int>> labels;
  std::map<char, int> numbers;
  std::vector<Value*> extents;
  const auto number = [&](char ch) {
    auto [at, fresh] = numbers.try_emplace(ch, static_cast<int>(numbers.size()));
    if (fresh) extents.push_back(nullptr);
    return at->second;
  };
  for (char ch : output) {
    if (!std::isalpha(static_cast<unsigned char>(ch))) refuse(c, AbortId::operands_, "einsum with " + subscripts);
    number(ch);
  }
  if (numbers.size() != output.size()) refuse(c, AbortId::operands_, "einsum with " + subscripts);
  DType dtype = DType::bool_;
  size_t start = 0;
  for (const Traced& t : given) {
    const size_t end = std::min(inputs.find(',', start), inputs.size());
    if (start > inputs.size()) refuse(c, AbortId::operands_, "einsum with " + subscripts);
    const std::string own = inputs.substr(start, end - start);
    start = end + 1;
    const TensorRef x = as_tensor(c, t);
    if (!x || own.size() != x->shape.size()) refuse(c, AbortId::operands_, "einsum with " + subscripts);
    labels.emplace_back();
    for (size_t d = 0; d < own.size(); d++) {
      if (!std::isalpha(static_cast<unsigned char>(own[d]))) refuse(c, AbortId::operands_, "einsum with " + subscripts);
      const int label = number(own[d]);
      labels.back().push_back(label);
      Value*& extent = extents[static_cast<size_t>(label)];
      if (!extent || known_integer(extent) == 1) {
        extent = x->shape[d];
      } else if (known_integer(x->shape[d]) != 1) {
        Emit e(c);
        e.check(ir::CheckKind::decline_, e.eq(extent, x->shape[d]));
      }
    }
    operands.push_back(x);
    dtype = promote(dtype, x->dtype);
  }
  const bool complete = std::all_of(extents.begin(), extents.end(), [](const Value* v) { return v != nullptr; });
  if (start != inputs.size() + 1 || !complete) refuse(c, AbortId::operands_, "einsum with " + subscripts);
  return finished(c, contraction(c, dtype, operands, labels, extents, static_cast<int>(output.size())));
}

}  // namespace appy::trace
