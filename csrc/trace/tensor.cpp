#include "trace/tensor.h"

#include <algorithm>
#include <numeric>

#include "ir/builder.h"
#include "trace/conversion.h"
#include "trace/tensor_mapping.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

/// Emits into a graph of its own, to see what a function of elements gives.
class Probe final : public Context {
 public:
  explicit Probe(const Context& real) : real_(real), builder_(graph_) {}

  ir::Builder& builder() override { return builder_; }
  void check(ir::Check check, Value* ok, std::span<Value* const> info) override {
    if (depends_on_lane(ok)) {
      checks_ = true;
    } else {
      invariant_.push_back({std::move(check), ok, {info.begin(), info.end()}});
    }
  }
  int line() const override { return real_.line(); }
  bool exact() const override { return real_.exact(); }
  void mark_written(const Traced&) override {}
  Value* extent(const Traced& array, int dim) override { return builder_.dim(array.value, dim); }
  std::optional<int64_t> sample(const Value*) const override { return {}; }
  void poll() override {}
  bool annotated() const override { return real_.annotated(); }
  bool auto_simd() const override { return real_.auto_simd(); }
  bool for_device() const override { return real_.for_device(); }
  int workers() const override { return real_.workers(); }
  int registers() const override { return real_.registers(); }
  runtime::Library library() const override { return real_.library(); }
  void make_arrays_of(const char*, const char*) override {}

  Traced lane(DType t) { return np_scalar(ir::add_arg(*graph_.body, ir::scalar(t))); }
  bool checks() const { return checks_; }

  /// Is it computed in the same way? Both stand in this graph, and nothing is stored between them.
  bool same(const Value* a, const Value* b) const {
    if (a == b || same_number(a, b)) return true;
    const ir::Op *x = a->op, *y = b->op;
    if (!x || !y || x->graph != &graph_ || y->graph != &graph_ || x->code != y->code || !(a->type == b->type)) {
      return false;
    }
    if (!(ir::is_pure(x->code) || x->code == Opcode::load_) || x->imm != y->imm || x->dim != y->dim) return false;
    if (x->access && (x->access->offset != y->access->offset || x->access->coef != y->access->coef)) return false;
    return std::equal(x->operands.begin(), x->operands.end(), y->operands.begin(), y->operands.end(),
                      [&](const Value* v, const Value* w) { return same(v, w); });
  }

  /// The checks that are the same for all elements: NumPy makes them for empty arrays too.
  void emit_invariant(Context& c) {
    for (Invariant& i : invariant_) {
      std::vector<Value*> info;
      for (const Value* v : i.info) info.push_back(copied(c, v));
      c.check(std::move(i.check), copied(c, i.ok), info);
    }
  }

 private:
  struct Invariant {
    ir::Check check;
    Value* ok;
    std::vector<Value*> info;
  };

  /// The value in the real graph.
  Value* copied(Context& c, const Value* v) {
    const ir::Op* op = v->op;
    if (!op || op->graph != &graph_) return const_cast<Value*>(v);
    Emit e(c);
    if (op->code == Opcode::const_) return e.constant(v->type.dtype, op->imm);
    std::vector<Value*> operands;
    for (const Value* operand : op->operands) operands.push_back(copied(c, operand));
    if (op->code == Opcode::cast_) return e.cast(operands[0], v->type.dtype);
    if (op->code == Opcode::bitcast_) return c.builder().bitcast(operands[0], v->type.dtype);
    return c.builder().op(op->code, operands);
  }

  bool depends_on_lane(const Value* v) const {
    if (!v->op) return v->block == graph_.body;
    if (v->op->graph != &graph_) return false;
    return std::any_of(v->op->operands.begin(), v->op->operands.end(),
                       [&](const Value* operand) { return depends_on_lane(operand); });
  }

  const Context& real_;
  ir::Graph graph_;
  ir::Builder builder_;
  std::vector<Invariant> invariant_;
  bool checks_ = false;
};

Value* one(Context& c) { return c.builder().i64(1); }

Traced load(Context& c, const Tensor& view, Index index) {
  const std::shared_ptr<MatrixProduct>* product = c.product();
  Value* from = view.base.value;
  if (product && *product && (*product)->out->base.value == from) {
    if ((*product)->element) return np_scalar((*product)->element);
    if ((*product)->sums) from = (*product)->sums;
  }
  return np_scalar(c.builder().load(from, positions(c, view, index)));
}

/// The element of t for an index of the broadcast result.
Traced element_of(Context& c, const Tensor& t, Index index) {
  return t.at(c, own_index(c, t.shape, index, index.size() - t.shape.size()));
}

}  // namespace

Value* position(Emit& e, Value* start, int64_t step, Value* index) {
  if (step != 1) index = e.op(Opcode::mul_, {index, e.i64(step)});
  return known_integer(start) == 0 ? index : e.op(Opcode::add_, {start, index});
}

std::vector<Value*> positions(Context& c, const Tensor& view, Index index) {
  Emit e(c);
  std::vector<Value*> at;
  for (const Axis& axis : view.axes) {
    at.push_back(axis.dim < 0 ? axis.start : position(e, axis.start, axis.step, index[static_cast<size_t>(axis.dim)]));
  }
  return at;
}

std::vector<Value*> own_index(Context& c, std::span<Value* const> shape, Index index, size_t first) {
  std::vector<Value*> own;
  for (size_t d = 0; d < shape.size(); d++) own.push_back(is_one(shape[d]) ? c.builder().i64(0) : index[first + d]);
  return own;
}

Value* cast_element(Context& c, const Traced& x, DType to) {
  return to == DType::bool_ ? truth(c, x) : unsafe_cast(c, x.value, to);
}

Traced tensor(Tensor t) {
  Traced out;
  out.kind = Kind::tensor;
  out.tensor = std::make_shared<const Tensor>(std::move(t));
  return out;
}

Traced tensor(TensorRef t) {
  Traced out;
  out.kind = Kind::tensor;
  out.tensor = std::move(t);
  return out;
}

Traced whole(const TensorRef& t) { return t->is_view() && t->base.value->op ? t->base : tensor(t); }

TensorRef make_view(Tensor t) {
  t.dtype = t.base.value->type.dtype;
  auto made = std::make_shared<Tensor>(std::move(t));
  made->at = [self = made.get()](Context& context, Index index) { return load(context, *self, index); };
  return made;
}

bool is_tensor(const Traced& t) { return t.kind == Kind::tensor || (t.kind == Kind::array && t.value->type.rank > 0); }

std::vector<Names> names_of(const Tensor& t) {
  return t.names.size() == t.shape.size() ? t.names : std::vector<Names>(t.shape.size());
}

std::vector<InnerRef> all_dimensions(const Tensor& t, const char* op) {
  std::vector<InnerRef> out;
  const std::vector<Names> names = names_of(t);
  for (size_t d = 0; d < t.shape.size(); d++) {
    out.push_back(std::make_shared<const Dimension>(Dimension{t.shape[d], names[d], op}));
  }
  return out;
}

void add_names(Names& to, const Names& from) {
  for (const pragma::NamedSlice* s : from) {
    if (std::find(to.begin(), to.end(), s) == to.end()) to.push_back(s);
  }
}

void add_names(std::vector<Names>& to, const Tensor& from) {
  if (from.names.size() != from.shape.size() || from.names.size() > to.size()) return;
  const size_t skip = to.size() - from.names.size();
  for (size_t d = 0; d < from.names.size(); d++) {
    if (!is_one(from.shape[d])) add_names(to[skip + d], from.names[d]);
  }
}

void add_inner(std::vector<InnerRef>& to, std::span<const InnerRef> from) {
  for (const InnerRef& d : from) {
    if (std::find(to.begin(), to.end(), d) == to.end()) to.push_back(d);
  }
}

bool is_lazy(const Traced& t) { return t.kind == Kind::tensor && !t.tensor->is_view(); }

TensorRef as_tensor(Context& c, const Traced& t) {
  if (t.kind == Kind::tensor) return t.tensor;
  if (t.kind != Kind::array) return nullptr;
  Tensor view;
  view.base = t;
  for (int d = 0; d < t.value->type.rank; d++) {
    view.shape.push_back(c.extent(t, d));
    view.axes.push_back({d, c.builder().i64(0), 1});
  }
  // What dim_info says of the variable.
  if (const Statement* st = c.statement(); st && !st->placed->extents.empty()) {
    const std::string name = c.variable_of(t);
    view.names.resize(view.shape.size());
    for (const pragma::NamedSlice& s : st->placed->slices) {
      const auto axis = static_cast<size_t>(s.axis);
      if (s.line == 0 && s.axis >= 0 && axis < view.names.size() && s.array == name) view.names[axis].push_back(&s);
    }
  }
  return make_view(std::move(view));
}

std::vector<Read> reads_of(const TensorRef& t) {
  if (!t->is_view()) return t->reads;
  std::vector<int> dims(t->shape.size());
  for (size_t d = 0; d < dims.size(); d++) dims[d] = static_cast<int>(d);
  return {{t, std::move(dims), true}};
}

bool same_number(const Value* a, const Value* b) {
  if (a == b) return true;
  if (!a->op || !b->op || a->op->code != b->op->code || a->index != b->index) return false;
  if (!ir::is_pure(a->op->code) || !(a->type == b->type)) return false;
  if (a->op->imm != b->op->imm || a->op->dim != b->op->dim) return false;
  if (a->op->operands.size() != b->op->operands.size()) return false;
  for (size_t i = 0; i < a->op->operands.size(); i++) {
    if (!same_number(a->op->operands[i], b->op->operands[i])) return false;
  }
  return true;
}

void require_same_extent(Context& c, Value* a, Value* b, const Shapes& of) {
  if (same_number(a, b)) return;
  // Where they differ NumPy raises, or one of them is 1 and is broadcast, which only the interpreter does.
  Value* equal = Emit(c).eq(a, b);
  ir::Check check;
  check.kind = of.kind;
  check.text = of.word;
  std::vector<Value*> info;
  for (const std::span<Value* const>& shape : of.shapes) {
    check.text += (&shape == of.shapes.data() ? "" : ",") + std::to_string(shape.size());
    info.insert(info.end(), shape.begin(), shape.end());
  }
  if (info.size() > ir::kMaxInfo) {
    check = {};
    check.kind = CheckKind::decline_;
    info.clear();
  }
  c.check(std::move(check), equal, info);
}

std::vector<Value*> broadcast_shapes(Context& c, std::span<const TensorRef> tensors) {
  size_t rank = 0;
  Shapes shapes{CheckKind::broadcast_, "", {}};
  for (const TensorRef& t : tensors) {
    rank = std::max(rank, t->shape.size());
    shapes.shapes.emplace_back(t->shape);
  }
  std::vector<Value*> shape(rank, nullptr);
  for (size_t d = 0; d < rank; d++) {
    for (const TensorRef& t : tensors) {
      const size_t skip = rank - t->shape.size();
      if (d < skip || is_one(t->shape[d - skip])) continue;
      if (!shape[d]) {
        shape[d] = t->shape[d - skip];
      } else {
        require_same_extent(c, shape[d], t->shape[d - skip], shapes);
      }
    }
    if (!shape[d]) shape[d] = one(c);
  }
  return shape;
}

Probed probe(Context& c, std::span<const Traced> scalars, std::span<const DType> lanes,
             const std::function<Traced(Context&, Scalars)>& f) {
  Probe probe(c);
  std::vector<Traced> args;
  size_t lane = 0;
  for (const Traced& s : scalars) args.push_back(is_tensor(s) ? probe.lane(lanes[lane++]) : s);
  const Traced result = f(probe, args);
  if (result.kind != Kind::scalar && result.kind != Kind::zero_d) {
    refuse(c, AbortId::operands_, "a function of arrays that gives a " + describe(result));
  }
  if (result.tag) refuse(c, AbortId::operands_, "a function of arrays whose result type depends on the values");
  probe.emit_invariant(c);
  return {result.value->type.dtype, probe.checks()};
}

bool same_elements(Context& c, const TensorRef& a, const TensorRef& b) {
  if (a == b) return true;
  if (a->heavy || b->heavy || a->dtype != b->dtype || a->rank() != b->rank()) return false;
  for (size_t d = 0; d < a->shape.size(); d++) {
    if (!same_number(a->shape[d], b->shape[d])) return false;
  }
  Probe probe(c);
  std::vector<Value*> index;
  for (size_t d = 0; d < a->shape.size(); d++) index.push_back(probe.lane(DType::i64_).value);
  return probe.same(a->at(probe, index).value, b->at(probe, index).value);
}

Traced map(Context& c, std::span<const Traced> operands, ElementFunction f) {
  std::vector<TensorRef> tensors;
  std::vector<DType> lanes;
  for (const Traced& t : operands) {
    if (!is_tensor(t)) continue;
    tensors.push_back(as_tensor(c, t));
    lanes.push_back(tensors.back()->dtype);
  }
  const Probed probed = probe(c, operands, lanes, f);
  Tensor out;
  out.dtype = probed.dtype;
  out.shape = broadcast_shapes(c, tensors);
  out.names.resize(out.shape.size());
  for (TensorRef& t : tensors) {
    const size_t skip = out.shape.size() - t->shape.size();
    bool repeated = false;
    for (size_t d = 0; d < out.shape.size(); d++) {
      repeated |= !is_one(out.shape[d]) && (d < skip || is_one(t->shape[d - skip]));
    }
    if (t->heavy && repeated) t = materialised(c, t);
    out.heavy |= t->heavy;
    out.lanes_inside |= t->lanes_inside;
    add_names(out.names, *t);
    add_inner(out.inner, t->inner);
    for (Read read : reads_of(t)) {
      for (int& d : read.dims) d = d < 0 || is_one(t->shape[static_cast<size_t>(d)]) ? -1 : d + static_cast<int>(skip);
      out.reads.push_back(std::move(read));
    }
  }
  if (!probed.checks) out.filter = map_filters(c, operands, f);
  std::vector<Traced> scalars(operands.begin(), operands.end());
  out.at = [tensors, scalars, f = std::move(f)](Context& context, Index index) {
    std::vector<Traced> args = scalars;
    size_t next = 0;
    for (Traced& arg : args) {
      if (is_tensor(arg)) arg = element_of(context, *tensors[next++], index);
    }
    return np_scalar(f(context, args).value);
  };
  if (!probed.checks) return tensor(std::move(out));
  // All its elements may raise before anything that is evaluated later does.
  return tensor(materialised_in_order(c, std::make_shared<const Tensor>(std::move(out))));
}

Value* flat_index(Emit& e, std::span<Value* const> shape, Index index) {
  Value* flat = e.i64(0);
  for (size_t d = 0; d < shape.size(); d++) {
    Value* scaled = known_integer(flat) == 0 ? flat : e.op(Opcode::mul_, {flat, shape[d]});
    flat = known_integer(scaled) == 0 ? index[d] : e.op(Opcode::add_, {scaled, index[d]});
  }
  return flat;
}

TensorRef rearranged(Context& c, const TensorRef& t, std::span<const int> order) {
  Tensor out;
  out.dtype = t->dtype;
  out.heavy = t->heavy;
  out.lanes_inside = t->lanes_inside;
  out.shares = t->shares;
  out.inner = t->inner;
  const std::vector<Names> names = names_of(*t);
  for (int d : order) out.names.push_back(d < 0 ? Names() : names[static_cast<size_t>(d)]);
  std::vector<int> place(t->shape.size(), -1);  // of t's dimensions in the result
  for (size_t d = 0; d < order.size(); d++) {
    out.shape.push_back(order[d] < 0 ? one(c) : t->shape[static_cast<size_t>(order[d])]);
    if (order[d] >= 0) place[static_cast<size_t>(order[d])] = static_cast<int>(d);
  }
  if (t->is_view()) {
    out.base = t->base;
    out.axes = t->axes;
    for (Axis& axis : out.axes) {
      if (axis.dim >= 0) axis.dim = place[static_cast<size_t>(axis.dim)];
    }
    return make_view(std::move(out));
  }
  for (Read read : t->reads) {
    for (int& d : read.dims) d = d < 0 ? -1 : place[static_cast<size_t>(d)];
    out.reads.push_back(std::move(read));
  }
  out.at = [t, place](Context& context, Index index) {
    std::vector<Value*> own;
    for (int p : place) own.push_back(p < 0 ? context.builder().i64(0) : index[static_cast<size_t>(p)]);
    return t->at(context, own);
  };
  return std::make_shared<const Tensor>(std::move(out));
}

TensorRef transposed(Context& c, const TensorRef& t) {
  std::vector<int> order(t->shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  return rearranged(c, t, order);
}

TensorRef broadcast_to(Context& c, const TensorRef& t, std::span<Value* const> shape) {
  // NumPy lets a value with more dimensions be assigned where the leading ones have extent 1.
  size_t extra = t->shape.size() > shape.size() ? t->shape.size() - shape.size() : 0;
  for (size_t d = 0; d < extra; d++) {
    if (!is_one(t->shape[d])) refuse(c, AbortId::operands_, "an assignment of more dimensions than there are");
  }
  TensorRef source = t;
  if (extra) {
    std::vector<int> order;
    for (size_t d = extra; d < t->shape.size(); d++) order.push_back(static_cast<int>(d));
    source = rearranged(c, t, order);
  }
  const size_t skip = shape.size() - source->shape.size();
  const std::vector<std::span<Value* const>> both = {source->shape, shape};
  bool repeated = false;
  for (size_t d = 0; d < shape.size(); d++) {
    const bool one = d < skip || is_one(source->shape[d - skip]);
    repeated |= one && !is_one(shape[d]);
    if (!one) require_same_extent(c, shape[d], source->shape[d - skip], {CheckKind::broadcast_, "into", both});
  }
  if (!repeated && !skip) return source;
  if (source->heavy && repeated) source = materialised(c, source);
  Tensor out;
  out.dtype = source->dtype;
  out.heavy = source->heavy;
  out.lanes_inside = source->lanes_inside;
  out.inner = source->inner;
  out.shape.assign(shape.begin(), shape.end());
  out.names.resize(shape.size());
  add_names(out.names, *source);
  for (Read read : reads_of(source)) {
    for (int& d : read.dims) {
      d = d < 0 || is_one(source->shape[static_cast<size_t>(d)]) ? -1 : d + static_cast<int>(skip);
    }
    out.reads.push_back(std::move(read));
  }
  out.at = [source](Context& context, Index index) { return element_of(context, *source, index); };
  return std::make_shared<const Tensor>(std::move(out));
}

}  // namespace appy::trace
