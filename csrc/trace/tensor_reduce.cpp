// Reductions and cumulative sums: loops with accumulators, in NumPy's dtypes.
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/builder.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/tensor_mapping.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

/// The type of np.sum and np.prod.
DType sum_type(DType t) {
  if (ir::is_real(t) || ir::size_of(t) == 8) return t;
  return ir::class_of(t) == ir::TypeClass::uint ? DType::u64_ : DType::i64_;
}

/// What sums and products of the type are accumulated in, before they are rounded.
DType wide_type(DType t) { return ir::is_half(t) ? DType::f32_ : t; }

struct Accumulator {
  DType result;
  Value* init;
  Opcode code;
  DType dtype() const { return init->type.dtype; }
};

/// The value that leaves every other as it is.
Value* identity_of(Context& c, Reduction kind, DType t) {
  Emit e(c);
  if (kind == Reduction::sum || kind == Reduction::any) return e.number(t, 0);
  if (kind == Reduction::prod || kind == Reduction::all) return e.number(t, 1);
  const bool max = kind == Reduction::max;
  const double infinity = std::numeric_limits<double>::infinity();
  if (ir::is_real(t)) return e.number(t, max ? -infinity : infinity);
  if (t == DType::u64_) return e.constant(t, max ? 0 : UINT64_MAX);
  const ir::Range range = bounds_of(t);
  return e.integer(t, max ? range.lo : range.hi);
}

Accumulator accumulator_of(Context& c, Reduction kind, DType element, std::optional<DType> dtype) {
  const auto in = [&](DType t, Opcode code) { return Accumulator{t, identity_of(c, kind, t), code}; };
  switch (kind) {
    case Reduction::sum:
    case Reduction::prod: {
      const DType t = dtype ? *dtype : sum_type(element);
      if (t == DType::bool_) refuse(c, AbortId::operands_, "a sum in bool");
      return {t, identity_of(c, kind, wide_type(t)), kind == Reduction::sum ? Opcode::add_ : Opcode::mul_};
    }
    case Reduction::any:
      return in(DType::bool_, Opcode::or_);
    case Reduction::all:
      return in(DType::bool_, Opcode::and_);
    default: {
      const bool max = kind == Reduction::max, boolean = element == DType::bool_;
      return in(element, boolean ? (max ? Opcode::or_ : Opcode::and_) : max ? Opcode::maximum_ : Opcode::minimum_);
    }
  }
}

/// The shape of what is left, and of what disappears. `along`: what disappears runs along memory, or nothing is left.
struct Split {
  bool along = true;
  std::vector<Value*> kept, reduced;
  std::vector<Names> names;  // of what is kept
  std::vector<InnerRef> dims;
  std::vector<size_t> kept_dims, reduced_dims;
};

const char* name_of(Reduction kind) {
  static constexpr const char* names[] = {"sum", "prod",   "max",    "min", "sum", "any",
                                          "all", "argmax", "argmin", "sum", "sum"};
  return names[static_cast<size_t>(kind)];
}

Split split(Context& c, const char* op, const TensorRef& source, const Axes& axes) {
  const Tensor& t = *source;
  Split out;
  const std::vector<Names> names = names_of(t);
  for (size_t d = 0; d < t.shape.size(); d++) {
    (axes.reduced[d] ? out.reduced : out.kept).push_back(t.shape[d]);
    (axes.reduced[d] ? out.reduced_dims : out.kept_dims).push_back(d);
    if (axes.reduced[d]) {
      out.dims.push_back(std::make_shared<const Dimension>(Dimension{t.shape[d], names[d], op}));
    } else {
      out.names.push_back(names[d]);
    }
  }
  if (t.shape.empty() || out.kept.empty()) return out;
  const std::vector<Read> reads = reads_of(source);
  out.along = axes.reduced[static_cast<size_t>(loop_order(reads, t.shape.size()).back())];
  const std::vector<Said> said = said_of(c, out.kept, out.names, out.dims);
  for (size_t d = 0; d < said.size(); d++) {
    if (said[d].simd) out.along = d >= out.kept.size();
  }
  return out;
}

std::vector<Value*> merged_index(const Split& s, Index kept, Index reduced) {
  std::vector<Value*> at(kept.size() + reduced.size());
  for (size_t i = 0; i < kept.size(); i++) at[s.kept_dims[i]] = kept[i];
  for (size_t i = 0; i < reduced.size(); i++) at[s.reduced_dims[i]] = reduced[i];
  return at;
}

Value* count_of(Context& c, std::span<Value* const> shape) {
  Emit e(c);
  Value* n = e.i64(1);
  for (Value* extent : shape) n = known_integer(n) == 1 ? extent : e.op(Opcode::mul_, {n, extent});
  return n;
}

void require_elements(Context& c, Value* count, const char* name) {
  Emit e(c);
  const std::string text = std::string("zero-size array to reduction operation ") + name + " which has no identity";
  e.check(CheckKind::value_, e.gt(count, e.i64(0)), text);
}

/// What is reduced, and how many elements make one of the result.
struct Source {
  TensorRef t;
  Axes axes;
  Value* count;
};

/// A sum or its like of x[mask] as one of x in which the elements that the mask leaves out count for nothing.
Source without_filter(Context& c, const Source& given, Value* nothing) {
  const Filter& filter = *given.t->filter;
  const int masked = filter.mask->rank();
  std::vector<int> order(filter.source->shape.size(), -1);
  std::iota(order.begin(), order.begin() + masked, 0);
  const Traced operands[] = {tensor(rearranged(c, filter.mask, order)), tensor(filter.source), np_scalar(nothing)};
  const Traced chosen = map(c, operands, [](Context& context, Scalars x) {
    return np_scalar(Emit(context).select(x[0].value, x[1].value, x[2].value));
  });
  Source out{chosen.tensor, given.axes, given.count};
  out.axes.reduced.insert(out.axes.reduced.begin(), static_cast<size_t>(masked) - 1, true);
  return out;
}

/// A result with the reduced dimensions back, as ones.
TensorRef with_ones(Context& c, const TensorRef& result, const Axes& axes) {
  std::vector<int> order;
  int next = 0;
  for (bool reduced : axes.reduced) order.push_back(reduced ? -1 : next++);
  return rearranged(c, result, order);
}

/// `element` for every index of what is kept, with the reduced dimensions back as ones where they are to be kept.
Traced shaped(Context& c, const TensorRef& source, const Split& s, const Axes& axes, DType dtype,
              const std::function<Value*(Context&, Index)>& element) {
  if (s.kept.empty() && !axes.keep) return np_scalar(element(c, {}));
  Tensor out;
  out.dtype = dtype;
  out.shape = s.kept;
  out.heavy = true;
  out.lanes_inside = s.along;
  out.names = s.names;
  out.inner = s.dims;
  add_inner(out.inner, source->inner);
  for (Read read : reads_of(source)) {
    read.make_irregular();
    out.reads.push_back(std::move(read));
  }
  out.at = [element](Context& context, Index index) { return np_scalar(element(context, index)); };
  TensorRef made = std::make_shared<const Tensor>(std::move(out));
  if (s.kept.empty()) made = materialised(c, made);
  return tensor(axes.keep ? with_ones(c, made, axes) : made);
}

/// The elements of a view as an expression: nobody else sees its array.
TensorRef expression_of(const TensorRef& view) {
  Tensor out;
  out.dtype = view->dtype;
  out.shape = view->shape;
  out.names = view->names;
  out.reads = reads_of(view);
  out.at = [view](Context& context, Index index) { return view->at(context, index); };
  return std::make_shared<const Tensor>(std::move(out));
}

/// In which order elements are combined where `most` is permitted. Lanes of a processor have the kept dimension where
/// that runs along memory; threads of a device may share long sums as well.
Order order_of(const Context& c, const Split& s, Order most) {
  if (c.exact()) return Order::kept;
  if (s.along) return most;
  return c.for_device() ? Order::divided : Order::kept;
}

Value* fold_up(Context& c, const TensorRef& t, const Split& s, const Accumulator& a, Index kept) {
  const std::vector<Value*> own(kept.begin(), kept.end());
  Value* const init[] = {a.init};
  const auto body = [&](Index reduced, std::span<Value* const> carried) {
    Emit e(c);
    const Traced x = t->at(c, merged_index(s, own, reduced));
    return std::vector<Value*>{e.op(a.code, {carried[0], cast_element(c, x, a.dtype())})};
  };
  return Emit(c).cast(accumulate(c, s.dims, init, order_of(c, s, Order::any), body)[0], a.result);
}

Traced simple(Context& c, Reduction kind, const Source& source, std::optional<DType> dtype) {
  if (kind == Reduction::max) require_elements(c, source.count, "maximum");
  if (kind == Reduction::min) require_elements(c, source.count, "minimum");
  const auto& [t, axes, count] = source;
  const Split s = split(c, name_of(kind), t, axes);
  const Accumulator a = accumulator_of(c, kind, t->dtype, dtype);
  const bool reals = ir::is_real(a.result) && (kind == Reduction::sum || kind == Reduction::prod);
  if (reals && c.exact()) refuse(c, AbortId::exact_function_, "a floating-point sum or product of an array");
  // Where the kept dimension runs along memory and the reduced one does not, rows are added to rows.
  const bool columns = kind == Reduction::sum && !s.along && !c.for_device();
  if (columns) {
    std::vector<int> labels(t->shape.size());
    std::vector<Value*> extents = s.kept;
    extents.insert(extents.end(), s.reduced.begin(), s.reduced.end());
    for (size_t i = 0; i < s.kept_dims.size(); i++) labels[s.kept_dims[i]] = static_cast<int>(i);
    for (size_t i = 0; i < s.reduced_dims.size(); i++) {
      labels[s.reduced_dims[i]] = static_cast<int>(s.kept_dims.size() + i);
    }
    const TensorRef operands[] = {t};
    const std::vector<int> all[] = {labels};
    TensorRef sum = contraction(c, a.result, operands, all, extents, static_cast<int>(s.kept.size()));
    if (!axes.keep) return whole(sum);
    return tensor(expression_of(with_ones(c, sum, axes)));
  }
  return shaped(c, t, s, axes, a.result,
                [t, s, a](Context& context, Index kept) { return fold_up(context, t, s, a, kept); });
}

DType mean_type(DType t) { return ir::is_real(t) ? t : DType::f64_; }

Value* mean_of(Context& c, const TensorRef& t, const Split& s, Value* count, DType dtype, Index kept) {
  Emit e(c);
  Accumulator a{dtype, e.number(dtype, 0), Opcode::add_};
  Value* sum = fold_up(c, t, s, a, kept);
  return e.op(Opcode::div_, {sum, e.cast(count, dtype)});
}

Traced mean(Context& c, const Source& source, std::optional<DType> dtype) {
  const auto& [t, axes, count] = source;
  if (c.exact()) refuse(c, AbortId::exact_function_, "a mean");
  const DType type = dtype ? *dtype : mean_type(t->dtype);
  if (!ir::is_real(type)) refuse(c, AbortId::operands_, "a mean in integers");
  const Split s = split(c, "sum", t, axes);
  return shaped(c, t, s, axes, type, [t, s, count, type](Context& context, Index kept) {
    return Emit(context).cast(mean_of(context, t, s, count, wide_type(type), kept), type);
  });
}

/// Two passes, as NumPy: the mean of the squared distances from the mean.
Traced variance(Context& c, bool root, const Source& source, std::optional<DType> dtype, const Traced& ddof) {
  const auto& [t, axes, count] = source;
  if (c.exact()) refuse(c, AbortId::exact_function_, "a variance");
  const DType type = dtype ? *dtype : mean_type(t->dtype);
  if (!ir::is_real(type)) refuse(c, AbortId::operands_, "a variance in integers");
  const std::optional<int64_t> less = ddof.kind == Kind::unbound ? 0
                                      : ddof.is_scalar()         ? known_integer(ddof.value)
                                                                 : std::nullopt;
  if (!less) refuse(c, AbortId::operands_, "a ddof that is no constant integer");
  const Split s = split(c, "sum", t, axes);
  const auto element = [t, s, count, given = type, type = wide_type(type), root, less = *less](Context& context,
                                                                                               Index kept) {
    Emit e(context);
    const std::vector<Value*> own(kept.begin(), kept.end());
    Value* center = mean_of(context, t, s, count, type, own);
    Value* const init[] = {e.number(type, 0)};
    Value* sum = accumulate(
        context, s.dims, init, order_of(context, s, Order::any), [&](Index reduced, std::span<Value* const> carried) {
          const Traced x = t->at(context, merged_index(s, own, reduced));
          Value* distance = e.op(Opcode::sub_, {cast_element(context, x, type), center});
          return std::vector<Value*>{e.op(Opcode::add_, {carried[0], e.op(Opcode::mul_, {distance, distance})})};
        })[0];
    Value* n = e.op(Opcode::pymax_, {e.op(Opcode::sub_, {count, e.i64(less)}), e.i64(0)});
    Value* result = e.op(Opcode::div_, {sum, e.cast(n, type)});
    return e.cast(root ? e.op(Opcode::sqrt_, {result}) : result, given);
  };
  return shaped(c, t, s, axes, type, element);
}

/// The better of two extrema and its position, the first of equal ones.
std::vector<Value*> better_of(Context& c, bool max, Value* x, Value* position, std::span<Value* const> carried) {
  Emit e(c);
  Value* const best = carried[0];
  if (!ir::is_real(x->type.dtype)) {
    Value* better = max ? e.gt(x, best) : e.lt(x, best);
    return {e.select(better, x, best), e.select(better, position, carried[1])};
  }
  // The form that `reductions` knows: a NaN is beyond all numbers, and what comes after it is not.
  Value* within = e.op(max ? Opcode::le_ : Opcode::ge_, {x, best});
  Value* better = e.both(e.negate(within), e.negate(e.op(Opcode::isnan_, {best})));
  return {e.op(max ? Opcode::maximum_ : Opcode::minimum_, {best, x}), e.select(better, position, carried[1])};
}

/// Elements whose extremum is found before positions matter: they stay in the first-level cache.
constexpr int64_t kBlock = 2048;

/// The position in a long vector, or in all of an array: the extremum of each block of rows, which needs no positions,
/// then the first place of it in the best block.
class PositionByBlocks {
 public:
  using At = std::function<Value*(Index)>;

  PositionByBlocks(Context& c, bool max, std::span<Value* const> extents, At at)
      : c_(c), e_(c), max_(max), extents_(extents), at_(std::move(at)) {
    Value* elements = e_.i64(1);  // of a row
    for (Value* extent : extents_.subspan(1)) elements = e_.op(Opcode::mul_, {elements, extent});
    rows_ = e_.i64(kBlock);
    if (extents_.size() == 1) return;
    rows_ = e_.op(Opcode::floordiv_, {rows_, e_.op(Opcode::pymax_, {elements, e_.i64(1)})});
    rows_ = e_.op(Opcode::pymax_, {rows_, e_.i64(1)});
  }

  Value* operator()(bool parallel) {
    const std::vector<Value*> zeros(extents_.size(), e_.i64(0));
    Value* const first = at_(zeros);
    const bool real = ir::is_real(first->type.dtype);
    Value* const identity = identity_of(c_, max_ ? Reduction::max : Reduction::min, first->type.dtype);
    const Opcode extremum = max_ ? Opcode::maximum_ : Opcode::minimum_;
    ir::Loop blocks;
    blocks.parallel = parallel;
    blocks.annotated = true;
    Value* const inits[] = {first, e_.i64(0)};
    Value* const more = e_.op(Opcode::add_, {extents_[0], e_.op(Opcode::sub_, {rows_, e_.i64(1)})});
    const std::vector<Value*> found = emit_loop(
        c_, e_.i64(0), e_.op(Opcode::floordiv_, {more, rows_}), inits, std::move(blocks),
        [&](Value* block, std::span<Value* const> best) {
          Value* x = of_block(block, identity, [&](Index i, Value* now) { return e_.op(extremum, {now, at_(i)}); });
          return better_of(c_, max_, x, block, best);
        });
    Value* const count = count_of(c_, extents_);
    return of_block(found[1], count, [&](Index i, Value* now) {
      Value* x = at_(i);
      Value* here = e_.op(Opcode::eq_, {x, found[0]});
      if (real) here = e_.op(Opcode::or_, {here, e_.op(Opcode::isnan_, {x})});
      return e_.op(Opcode::pymin_, {now, e_.select(here, flat_index(e_, extents_, i), count)});
    });
  }

 private:
  using Step = std::function<Value*(Index, Value* now)>;

  Value* of_block(Value* block, Value* init, const Step& step) {
    Value* const first = e_.op(Opcode::mul_, {block, rows_});
    Value* const end = e_.op(Opcode::pymin_, {e_.op(Opcode::add_, {first, rows_}), extents_[0]});
    return nest({}, first, end, init, step);
  }

  /// The loops from this dimension on: by one worker, the last one in lanes.
  Value* nest(const std::vector<Value*>& outer, Value* from, Value* to, Value* init, const Step& step) {
    const size_t inner = outer.size() + 1;
    const bool last = inner == extents_.size();
    ir::Loop attributes;
    attributes.annotated = true;
    (last ? attributes.simd : attributes.parallel) = true;
    if (!last) attributes.threads = 1;
    Value* const inits[] = {init};
    return emit_loop(c_, from, to, inits, std::move(attributes), [&](Value* i, std::span<Value* const> now) {
      std::vector<Value*> index = outer;
      index.push_back(i);
      return std::vector<Value*>{last ? step(index, now[0]) : nest(index, e_.i64(0), extents_[inner], now[0], step)};
    })[0];
  }

  Context& c_;
  Emit e_;
  bool max_;
  std::span<Value* const> extents_;
  At at_;
  Value* rows_ = nullptr;  // of a block
};

/// Are lanes along the last dimension, and nothing said of how many go where?
bool takes_blocks(std::span<const NestLoop> loops, size_t rank) {
  return loops.size() == rank && loops.back().simd && std::all_of(loops.begin(), loops.end(), [&](const NestLoop& l) {
           const auto at = static_cast<size_t>(&l - loops.data());
           return l.dim == at && l.le == 0 && l.chunk == 0 && l.tile == 0 && l.unroll == 1;
         });
}

/// The first position of the extremum; of a NaN, where there is one. Bools are compared as integers.
Traced position(Context& c, bool max, const TensorRef& t, const Axes& axes) {
  const Split s = split(c, max ? "argmax" : "argmin", t, axes);
  Emit check(c);
  const char* name = max ? "attempt to get argmax of an empty sequence" : "attempt to get argmin of an empty sequence";
  check.check(CheckKind::value_, check.gt(count_of(c, s.reduced), check.i64(0)), name);
  const auto element = [t, s, max](Context& context, Index kept) {
    Emit e(context);
    const std::vector<Value*> own(kept.begin(), kept.end());
    const auto at = [&](Index reduced) {
      Value* x = t->at(context, merged_index(s, own, reduced)).value;
      return x->type.dtype == DType::bool_ ? e.cast(x, DType::u8_) : x;
    };
    // Inside of loops vectors are short as a rule.
    if (t->is_view() && s.kept.empty() && !context.for_device() && !ir::enclosing_loop(*context.builder().block())) {
      const std::vector<NestLoop> loops = plan_inner(context, s.dims, Order::divided);
      if (takes_blocks(loops, s.reduced.size()))
        return PositionByBlocks(context, max, s.reduced, at)(loops[0].parallel);
    }
    const std::vector<Value*> zeros(s.reduced.size(), e.i64(0));
    Value* const init[] = {at(zeros), e.i64(0)};
    return accumulate(context, s.dims, init, order_of(context, s, Order::divided),
                      [&](Index reduced, std::span<Value* const> carried) {
                        Value* x = at(reduced);
                        return better_of(context, max, x, flat_index(e, s.reduced, reduced), carried);
                      })[1];
  };
  return shaped(c, t, s, axes, DType::i64_, element);
}

}  // namespace

Traced reduce(Context& c, Reduction kind, const TensorRef& given, const Axes& axes, std::optional<DType> dtype,
              const Traced& ddof) {
  if (given->unravelled && !axes.keep && axes.reduced[0]) {
    Axes all;
    all.reduced.assign(given->unravelled->shape.size(), true);
    return reduce(c, kind, given->unravelled, all, dtype, ddof);
  }
  // What may leave the region leaves it before anything is stored; what is computed twice is stored once.
  const bool twice = kind == Reduction::var || kind == Reduction::std;
  const TensorRef t = given->heavy || (twice && !given->is_view()) ? materialised(c, given) : given;
  Source source{t, axes, count_of(c, split(c, name_of(kind), t, axes).reduced)};
  // With dimensions kept there is one for all of the mask's.
  const bool by_mask = t->filter && axes.reduced[0] && (!axes.keep || t->filter->mask->rank() == 1);
  switch (kind) {
    case Reduction::mean:
      if (by_mask) source = without_filter(c, source, Emit(c).number(t->dtype, 0));
      return mean(c, source, dtype);
    case Reduction::std:
    case Reduction::var:
      return variance(c, kind == Reduction::std, source, dtype, ddof);
    case Reduction::argmax:
    case Reduction::argmin:
      return position(c, kind == Reduction::argmax, t, axes);
    default:
      if (by_mask) source = without_filter(c, source, identity_of(c, kind, t->dtype));
      return simple(c, kind, source, dtype);
  }
}

Traced cumulate(Context& c, BinaryOp op, const TensorRef& given, int axis, std::optional<DType> dtype) {
  const TensorRef t = given->heavy ? materialised(c, given) : given;
  const DType type = dtype ? *dtype : sum_type(t->dtype);
  if (type == DType::bool_) refuse(c, AbortId::operands_, "a cumulative sum in bool");
  // NumPy rounds each sum of halves, torch those that are stored.
  const DType carried_type = c.library() == runtime::Library::torch ? wide_type(type) : type;
  const TensorRef out = allocate(c, type, t->shape, {}, kept_order(c, {&t, 1}));
  Axes axes;
  axes.reduced.assign(t->shape.size(), false);
  axes.reduced[static_cast<size_t>(axis)] = true;
  const Split s = split(c, op == BinaryOp::add ? "sum" : "prod", t, axes);
  const Mapping mapping = plan(c, {s.kept, s.names, s.dims, {}, !axes.reduced.back()});
  for_each(c, s.kept, mapping, nullptr, [&](Index kept, Value*) {
    Emit e(c);
    const std::vector<Value*> own(kept.begin(), kept.end());
    const bool sum = op == BinaryOp::add;
    Value* const init[] = {e.number(carried_type, sum ? 0 : 1)};
    accumulate(c, s.dims, init, Order::kept, [&](Index reduced, std::span<Value* const> carried) {
      const std::vector<Value*> at = merged_index(s, own, reduced);
      Value* x = e.cast(cast_element(c, t->at(c, at), type), carried_type);
      Value* next = e.op(sum ? Opcode::add_ : Opcode::mul_, {carried[0], x});
      c.builder().store(e.cast(next, type), out->base.value, at);
      return std::vector<Value*>{next};
    });
  });
  return out->base;
}

}  // namespace appy::trace
