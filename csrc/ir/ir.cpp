#include "ir/ir.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <stdexcept>

namespace appy::ir {

namespace {

struct TypeInfo {
  std::string_view name;
  int bits;
  TypeClass cls;
};

constexpr std::array kTypes = {
#define X(name, bits, cls) TypeInfo{#name, bits, TypeClass::cls},
#include "ir/types.def"
#undef X
};

constexpr std::array kOps = {
#define X(name, arity, effect, rule) OpInfo{#name, arity, Effect::effect, Rule::rule},
#include "ir/ops.def"
#undef X
};

constexpr std::array kChecks = {
#define X(name, exception, ninfo) std::string_view{#name},
#include "ir/checks.def"
#undef X
};

constexpr std::array kCombiners = {
#define X(name, op) std::string_view{#name},
#include "ir/combiners.def"
#undef X
};

constexpr std::array kCombinerOps = {
#define X(name, op) Opcode::op##_,
#include "ir/combiners.def"
#undef X
};

void rewrite_operands(Block& block, const std::vector<Value*>& to) {
  walk(block, [&](Op& op) {
    for (Value*& operand : op.operands) {
      while (operand->id < to.size() && to[operand->id] && to[operand->id] != operand) operand = to[operand->id];
    }
  });
}

}  // namespace

int size_of(DType t) { return kTypes[static_cast<size_t>(t)].bits / 8; }
TypeClass class_of(DType t) { return kTypes[static_cast<size_t>(t)].cls; }
std::string_view name_of(DType t) { return kTypes[static_cast<size_t>(t)].name; }
const OpInfo& info(Opcode c) { return kOps[static_cast<size_t>(c)]; }
std::string_view name_of(CheckKind k) { return kChecks[static_cast<size_t>(k)]; }
std::string_view name_of(Combiner c) { return kCombiners[static_cast<size_t>(c)]; }
Opcode opcode_of(Combiner c) { return kCombinerOps[static_cast<size_t>(c)]; }
Word neutral(Combiner c, DType t) {
  if (c == Combiner::prod_) {
    return t == DType::f64_ ? std::bit_cast<uint64_t>(1.0) : t == DType::f32_ ? std::bit_cast<uint32_t>(1.0f) : 1;
  }
  // -0 keeps the sign of a sum of negative zeros.
  if (t == DType::f64_) return std::bit_cast<uint64_t>(-0.0);
  if (t == DType::f32_) return std::bit_cast<uint32_t>(-0.0f);
  return 0;
}
std::string_view name_of(Mapping m) {
  constexpr std::string_view kNames[] = {"none", "workers", "columns", "lanes", "threads", "single", "repeated"};
  return kNames[static_cast<size_t>(m)];
}

bool is_terminator(Opcode c) { return c == Opcode::yield_ || c == Opcode::continue_ || c == Opcode::break_; }

Value* Op::view() const {
  switch (code) {
    case Opcode::load_:
      return operands.at(0);
    case Opcode::store_:
    case Opcode::atomic_:
      return operands.at(1);
    default:
      throw std::logic_error("view() of an op that accesses no memory");
  }
}

size_t first_word(const Graph& graph, uint32_t parameter) {
  size_t word = 0;
  for (uint32_t k = 0; k < parameter; ++k) word += words_of(graph.body->args[k]->type);
  return word;
}

size_t word_of(const Graph& graph, const Length& length) {
  return first_word(graph, length.parameter) + static_cast<size_t>(length.dim + 1);
}

void Block::append(Op* op) {
  op->parent = this;
  op->prev = last;
  op->next = nullptr;
  (last ? last->next : first) = op;
  last = op;
}

void Block::insert_before(Op* position, Op* op) {
  op->parent = this;
  op->prev = position->prev;
  op->next = position;
  (position->prev ? position->prev->next : first) = op;
  position->prev = op;
}

void Block::remove(Op* op) {
  (op->prev ? op->prev->next : first) = op->next;
  (op->next ? op->next->prev : last) = op->prev;
  op->parent = nullptr;
  op->prev = op->next = nullptr;
}

Graph::Graph() {
  locs.emplace_back();
  body = new_block(nullptr);
}

Value* Graph::new_value(Type type, Op* op, Block* block, uint32_t index) {
  Value& v = values_.add();
  v.type = type;
  v.id = value_count_++;
  v.op = op;
  v.block = block;
  v.index = index;
  return &v;
}

Op* Graph::new_op(Opcode code, LocId loc) {
  Op& op = ops_.add();
  op.code = code;
  op.loc = loc;
  op.graph = this;
  return &op;
}

Block* Graph::new_block(Op* owner) {
  Block& block = blocks_.add();
  block.graph = this;
  block.owner = owner;
  return &block;
}

void Graph::renumber() {
  constexpr uint32_t kGone = UINT32_MAX;
  std::vector<bool> stands(value_count_);
  const auto note = [&](std::span<Value* const> values) {
    for (const Value* v : values) stands[v->id] = true;
  };
  note(body->args);
  walk(*body, [&](const Op& op) {
    note(op.results);
    for (const Block* inner : op.blocks) note(inner->args);
  });
  value_count_ = 0;
  values_.each([&](Value& v) { v.id = v.id != kGone && stands[v.id] ? value_count_++ : kGone; });
}

void Graph::number(Op& alloc) { alloc.slot = slots_++; }

LocId Graph::add_loc(Loc loc) { return add_loc(loc.file, loc.line, loc.column, loc.inlined_at); }

LocId Graph::add_loc(const std::string& file, int line, int column, LocId inlined_at) {
  const auto is = [&](const Loc& known) {
    return known.line == line && known.column == column && known.inlined_at == inlined_at && known.file == file;
  };
  if (const auto at = std::find_if(locs.rbegin(), locs.rend(), is); at != locs.rend())
    return static_cast<LocId>(std::distance(at, locs.rend()) - 1);
  locs.push_back({file, line, column, inlined_at});
  return static_cast<LocId>(locs.size() - 1);
}

Value* add_result(Op& op, Type type) {
  Value* v = op.graph->new_value(type, &op, nullptr, static_cast<uint32_t>(op.results.size()));
  op.results.push_back(v);
  return v;
}

Value* add_arg(Block& block, Type type, std::string name) {
  Value* v = block.graph->new_value(type, nullptr, &block, static_cast<uint32_t>(block.args.size()));
  v->name = std::move(name);
  block.args.push_back(v);
  return v;
}

void replace_uses(Graph& graph, const std::vector<Value*>& to) { rewrite_operands(*graph.body, to); }

void replace_uses(Graph& graph, Value* from, Value* to) {
  walk(*graph.body, [&](Op& op) {
    for (Value*& operand : op.operands) {
      if (operand == from) operand = to;
    }
  });
}

bool defined_outside(const Value& value, const Block& block) {
  const Block* at = value.op ? value.op->parent : value.block;
  while (at) {
    if (at == &block) return false;
    at = at->owner ? at->owner->parent : nullptr;
  }
  return true;
}

Op* enclosing_loop(const Block& block) {
  for (const Block* at = &block; at && at->owner; at = at->owner->parent) {
    if (at->owner->code == Opcode::for_ || at->owner->code == Opcode::while_) return at->owner;
  }
  return nullptr;
}

namespace {

class Cloner {
 public:
  Cloner(const Graph& from, Graph& to) : to_(to), map_(from.value_count()) {}

  void block(const Block& from, Block& to) {
    for (const Value* arg : from.args) {
      Value* copy = add_arg(to, arg->type, arg->name);
      copy->range = arg->range;
      map_[arg->id] = copy;
    }
    for (const Op* op = from.first; op; op = op->next) to.append(this->op(*op));
  }

 private:
  Op* op(const Op& from) {
    Op* copy = to_.new_op(from.code, from.loc);
    for (const Value* operand : from.operands) {
      Value* mapped = map_[operand->id];
      if (!mapped) throw std::logic_error("clone: an operand is used before its definition");
      copy->operands.push_back(mapped);
    }
    copy->imm = from.imm;
    copy->dim = from.dim;
    copy->escapes = from.escapes;
    copy->slot = from.slot;
    copy->lead = from.lead;
    copy->combiner = from.combiner;
    copy->mapping = from.mapping;
    if (from.access) copy->access = std::make_unique<Access>(*from.access);
    if (from.check) copy->check = std::make_unique<Check>(*from.check);
    if (from.loop) copy->loop = std::make_unique<Loop>(*from.loop);
    for (const Block* inner : from.blocks) {
      Block* made = to_.new_block(copy);
      copy->blocks.push_back(made);
      block(*inner, *made);
    }
    for (const Value* result : from.results) {
      Value* made = add_result(*copy, result->type);
      made->name = result->name;
      made->range = result->range;
      map_[result->id] = made;
    }
    return copy;
  }

  Graph& to_;
  std::vector<Value*> map_;
};

}  // namespace

std::unique_ptr<Graph> clone(const Graph& graph) {
  auto copy = std::make_unique<Graph>();
  copy->name = graph.name;
  copy->exact = graph.exact;
  copy->may_alias = graph.may_alias;
  copy->auto_simd = graph.auto_simd;
  copy->inspectors = graph.inspectors;
  copy->boxes = graph.boxes;
  copy->registers = graph.registers;
  copy->workers = graph.workers;
  copy->cache = graph.cache;
  copy->given = graph.given;
  copy->solve = graph.solve;
  copy->factorization = graph.factorization;
  copy->result_names = graph.result_names;
  copy->locs = graph.locs;
  copy->remarks = graph.remarks;
  copy->reserve_slots(graph.slot_count());
  Cloner(graph, *copy).block(*graph.body, *copy->body);
  return copy;
}

std::optional<IndexTest> index_test(const Value& condition) {
  if (!condition.op || condition.op->code != Opcode::and_) return {};
  Op *low = condition.op->operands[0]->op, *high = condition.op->operands[1]->op;
  if (low && low->code == Opcode::lt_) std::swap(low, high);
  if (!low || !high || low->code != Opcode::ge_ || high->code != Opcode::lt_) return {};
  const Op* zero = low->operands[1]->op;
  if (low->operands[0] != high->operands[0] || !zero || zero->code != Opcode::const_ || zero->imm != 0) return {};
  return IndexTest{low->operands[0], high->operands[1], low, high};
}

size_t first_state(const Op& op) {
  if (op.code == Opcode::poll_) return 0;
  return op.code == Opcode::check_ && op.check ? 1 + static_cast<size_t>(std::max(op.check->ninfo, 0))
                                               : op.operands.size();
}

bool can_reorder(const Op& loop) {
  const auto& carried = loop.loop->carried;
  for (size_t i = 0; i < carried.size(); ++i) {
    const Carried& c = carried[i];
    if (c.combiner == Combiner::recur_) return false;
    if (!is_follower(c.combiner)) continue;
    if (c.leader < 0 || carried[static_cast<size_t>(c.leader)].tie < 0) return false;
  }
  return true;
}

}  // namespace appy::ir
