#include "ir/builder.h"

#include <bit>
#include <stdexcept>

#include "ir/typing.h"

namespace appy::ir {

namespace {

[[noreturn]] void fail(Opcode code, const std::string& what) {
  throw std::logic_error("builder: " + std::string(info(code).name) + ": " + what);
}

std::unique_ptr<Access> plain_access(Opcode code, const Value& view, std::span<Value* const> index) {
  if (!view.type.is_view()) fail(code, "expected a view");
  if (index.size() != static_cast<size_t>(view.type.rank)) {
    fail(code, "expected " + std::to_string(view.type.rank) + " subscripts, got " + std::to_string(index.size()));
  }
  auto access = std::make_unique<Access>();
  access->terms = static_cast<int>(index.size());
  access->offset.assign(index.size(), 0);
  access->coef.assign(index.size(), Access::Row(index.size(), 0));
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d]->type != scalar(DType::i64_)) fail(code, "a subscript must be i64");
    access->coef[d][d] = 1;
  }
  return access;
}

void append(std::vector<Value*>& to, std::span<Value* const> from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

Op* Builder::insert(Op* op) {
  if (before_) {
    block_->insert_before(before_, op);
  } else {
    block_->append(op);
  }
  return op;
}

Value* Builder::constant(DType t, Word w) {
  Op* made = graph_.new_op(Opcode::const_, loc_);
  made->imm = canonical(t, w);
  return add_result(*insert(made), scalar(t));
}

Value* Builder::f64(double v) { return constant(DType::f64_, std::bit_cast<Word>(v)); }

Value* Builder::op(Opcode code, std::initializer_list<Value*> operands) {
  return op(code, std::span<Value* const>(operands.begin(), operands.size()));
}

Value* Builder::op(Opcode code, std::span<Value* const> operands) {
  const OpInfo& row = info(code);
  if (row.effect != Effect::pure || row.rule == Rule::given || code == Opcode::dim_) {
    fail(code, "its result does not follow from its operands");
  }
  if (operands.size() != static_cast<size_t>(row.arity)) fail(code, "wrong number of operands");
  const DType result = inferred_type(code, operands);
  if (std::string fault = type_fault(code, result, operands); !fault.empty()) fail(code, fault);
  Op* made = graph_.new_op(code, loc_);
  append(made->operands, operands);
  return add_result(*insert(made), scalar(result));
}

Value* Builder::cast(Value* v, DType t) {
  if (v->type == scalar(t)) return v;
  if (v->type.is_view()) fail(Opcode::cast_, "expected a scalar");
  Op* made = graph_.new_op(Opcode::cast_, loc_);
  made->operands = {v};
  return add_result(*insert(made), scalar(t));
}

Value* Builder::bitcast(Value* v, DType t) {
  if (v->type == scalar(t)) return v;
  Value* operands[] = {v};
  if (std::string fault = type_fault(Opcode::bitcast_, t, operands); !fault.empty()) fail(Opcode::bitcast_, fault);
  Op* made = graph_.new_op(Opcode::bitcast_, loc_);
  made->operands = {v};
  return add_result(*insert(made), scalar(t));
}

Value* Builder::dim(Value* view, int d) {
  if (!view->type.is_view() || d < 0 || d >= view->type.rank) fail(Opcode::dim_, "no such dimension");
  Op* made = graph_.new_op(Opcode::dim_, loc_);
  made->operands = {view};
  made->dim = d;
  return add_result(*insert(made), scalar(DType::i64_));
}

Value* Builder::alloc(Type view, std::span<Value* const> extents) {
  if (!view.is_view() || !can_alloc(view.layout)) fail(Opcode::alloc_, "its type is a view with layout c or f");
  if (extents.size() != static_cast<size_t>(view.rank)) {
    fail(Opcode::alloc_, "expected " + std::to_string(view.rank) + " extents, got " + std::to_string(extents.size()));
  }
  for (const Value* extent : extents) {
    if (extent->type != scalar(DType::i64_)) fail(Opcode::alloc_, "an extent must be i64");
  }
  Op* made = graph_.new_op(Opcode::alloc_, loc_);
  graph_.number(*made);
  append(made->operands, extents);
  return add_result(*insert(made), view);
}

Value* Builder::load(Value* view, std::span<Value* const> index) {
  auto access = plain_access(Opcode::load_, *view, index);
  Op* made = graph_.new_op(Opcode::load_, loc_);
  made->access = std::move(access);
  made->operands = {view};
  append(made->operands, index);
  return add_result(*insert(made), scalar(view->type.dtype));
}

Op* Builder::store(Value* value, Value* view, std::span<Value* const> index) {
  auto access = plain_access(Opcode::store_, *view, index);
  if (value->type != scalar(view->type.dtype)) fail(Opcode::store_, "the value does not have the element type");
  Op* made = graph_.new_op(Opcode::store_, loc_);
  made->access = std::move(access);
  made->operands = {value, view};
  append(made->operands, index);
  return insert(made);
}

Op* Builder::atomic(Combiner combiner, Value* value, Value* view, std::span<Value* const> index) {
  auto access = plain_access(Opcode::atomic_, *view, index);
  if (value->type != scalar(view->type.dtype)) fail(Opcode::atomic_, "the value does not have the element type");
  Op* made = graph_.new_op(Opcode::atomic_, loc_);
  made->access = std::move(access);
  made->combiner = combiner;
  made->operands = {value, view};
  append(made->operands, index);
  return insert(made);
}

Op* Builder::check(Check check, Value* ok, std::span<Value* const> info, std::span<Value* const> state) {
  if (ok->type != scalar(DType::bool_)) fail(Opcode::check_, "the condition must be bool");
  Op* made = graph_.new_op(Opcode::check_, loc_);
  check.ninfo = static_cast<int>(info.size());
  check.has_state = check.has_state || !state.empty();
  made->check = std::make_unique<Check>(std::move(check));
  made->operands = {ok};
  append(made->operands, info);
  append(made->operands, state);
  return insert(made);
}

Op* Builder::barrier(Mapping scope) {
  Op* made = graph_.new_op(Opcode::barrier_, loc_);
  made->mapping = scope;
  return insert(made);
}

Op* Builder::poll(std::span<Value* const> state) {
  Op* made = graph_.new_op(Opcode::poll_, loc_);
  append(made->operands, state);
  return insert(made);
}

Op* Builder::for_loop(Value* lower, Value* upper, Value* step, std::span<Value* const> inits, Loop loop) {
  for (const Value* bound : {lower, upper, step}) {
    if (bound->type != scalar(DType::i64_)) fail(Opcode::for_, "bounds and step must be i64");
  }
  if (loop.carried.empty()) loop.carried.resize(inits.size());
  if (loop.carried.size() != inits.size()) fail(Opcode::for_, "one Carried a carried value");
  Op* made = graph_.new_op(Opcode::for_, loc_);
  made->loop = std::make_unique<Loop>(std::move(loop));
  made->operands = {lower, upper, step};
  append(made->operands, inits);
  Block* body = graph_.new_block(made);
  made->blocks = {body};
  add_arg(*body, scalar(DType::i64_));
  for (const Value* init : inits) {
    add_arg(*body, init->type);
    add_result(*made, init->type);
  }
  return insert(made);
}

Op* Builder::while_loop(std::span<Value* const> inits) {
  Op* made = graph_.new_op(Opcode::while_, loc_);
  append(made->operands, inits);
  Block* body = graph_.new_block(made);
  made->blocks = {body};
  for (const Value* init : inits) {
    add_arg(*body, init->type);
    add_result(*made, init->type);
  }
  return insert(made);
}

Op* Builder::if_op(Value* cond, std::span<const Type> results) {
  if (cond->type != scalar(DType::bool_)) fail(Opcode::if_, "the condition must be bool");
  Op* made = graph_.new_op(Opcode::if_, loc_);
  made->operands = {cond};
  made->blocks = {graph_.new_block(made), graph_.new_block(made)};
  for (const Type& type : results) add_result(*made, type);
  return insert(made);
}

Op* Builder::terminator(Opcode code, std::span<Value* const> values) {
  if (!is_terminator(code)) fail(code, "is no terminator");
  Op* made = graph_.new_op(code, loc_);
  append(made->operands, values);
  return insert(made);
}

}  // namespace appy::ir
