// Clauses of a loop pragma: arguments that are expressions, and clauses that contradict the body.
#include <algorithm>
#include <set>
#include <string_view>

#include "pycompat/locals.h"
#include "support/abort.h"
#include "trace/recorder.h"
#include "trace/recorder_loop.h"

namespace appy::trace {

using ir::Opcode;

namespace {

std::string take_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Ref owned[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  const Ref text = Ref::steal(value ? PyObject_Str(value) : nullptr);
  const char* words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  std::string out = words ? words : "an exception";
  PyErr_Clear();
  return out;
}

// From 3.13 on FOR_ITER has the position of the iterable, before that of the whole statement; without columns there are
// lines alone.
bool speaks_of(const pragma::Placed& placed, const bytecode::Position& at) {
  if (at.column < 0 || placed.iter_column < 0) return at.line == placed.iter_line || at.line == placed.line;
  if (at.line == placed.iter_line && at.column == placed.iter_column) return true;
  return at.line == placed.line && at.end_line == placed.end_line && at.column < placed.iter_column;
}

/// The values that depend on `seed` within the loop's body.
std::set<const ir::Value*> dependents(ir::Op& loop, const ir::Value* seed) {
  std::set<const ir::Value*> out = {seed};
  for (size_t before = 0; before != out.size();) {
    before = out.size();
    ir::walk(*loop.blocks[0], [&](ir::Op& op) {
      const auto depends = [&](const ir::Value* v) { return out.count(v) > 0; };
      if (op.code == Opcode::for_ || op.code == Opcode::while_) {
        const size_t first = op.code == Opcode::for_ ? 3 : 0, first_arg = first ? 1 : 0;
        for (size_t i = first; i < op.operands.size(); ++i) {
          if (!depends(op.operands[i])) continue;
          out.insert(op.blocks[0]->args[first_arg + i - first]);
          out.insert(op.results[i - first]);
        }
      } else if (op.code == Opcode::if_) {
        for (const ir::Block* arm : op.blocks) {
          if (arm->last->code != Opcode::yield_) continue;
          for (size_t i = 0; i < op.results.size(); ++i) {
            if (depends(arm->last->operands[i])) out.insert(op.results[i]);
          }
        }
      } else if (!op.results.empty() && std::any_of(op.operands.begin(), op.operands.end(), depends)) {
        out.insert(op.results[0]);
      }
    });
  }
  return out;
}

/// What combines the old value on its way to the new one: the ops of the chain from a carried argument to the yield.
std::set<Opcode> updates(ir::Op& loop, size_t carried, const ir::Value* arg) {
  const std::set<const ir::Value*> chain = dependents(loop, arg);
  std::set<Opcode> out;
  std::set<const ir::Value*> seen;
  std::vector<const ir::Value*> work = {loop.blocks[0]->last->operands[carried]};
  while (!work.empty()) {
    const ir::Value* v = work.back();
    work.pop_back();
    if (!chain.count(v) || !seen.insert(v).second || !v->op) continue;
    const ir::Op& op = *v->op;
    if (op.blocks.empty()) {
      out.insert(op.code);
      const size_t first = op.code == Opcode::select_ ? 1 : 0;  // a condition combines nothing
      for (size_t i = first; i < op.operands.size(); ++i) work.push_back(op.operands[i]);
      continue;
    }
    for (const ir::Block* block : op.blocks) {
      if (block->last->code == Opcode::yield_) work.push_back(block->last->operands[v->index]);
    }
    if (op.code != Opcode::if_) work.push_back(op.operands[v->index + (op.code == Opcode::for_ ? 3 : 0)]);
  }
  return out;
}

/// Is the op an update that the clause's operator does not allow?
bool contradicts(std::string_view reduction, Opcode code) {
  struct Row {
    std::string_view name;
    std::initializer_list<Opcode> ops;
  };
  static const Row rows[] = {
      {"sum", {Opcode::add_, Opcode::sub_, Opcode::fma_}},
      {"prod", {Opcode::mul_}},
      {"max", {Opcode::pymax_, Opcode::maximum_}},
      {"min", {Opcode::pymin_, Opcode::minimum_}},
      {"|", {Opcode::or_}},
      {"&", {Opcode::and_}},
      {"^", {Opcode::xor_}},
  };
  static const Opcode others[] = {Opcode::div_, Opcode::floordiv_, Opcode::mod_,
                                  Opcode::pow_, Opcode::shl_,      Opcode::shr_};
  bool allowed = false, known = false,
       combines = std::find(std::begin(others), std::end(others), code) != std::end(others);
  for (const Row& row : rows) {
    const bool has = std::find(row.ops.begin(), row.ops.end(), code) != row.ops.end();
    combines |= has;
    known |= row.name == reduction;
    allowed |= has && row.name == reduction;
  }
  return known && combines && !allowed;
}

/// Is the value read in the loop before it is assigned? To be handed on is not to be read.
bool is_read(ir::Op& loop, const ir::Value* v) {
  bool read = false;
  ir::walk(*loop.blocks[0], [&](ir::Op& op) {
    const bool terminator = ir::is_terminator(op.code);
    const size_t inits = op.code == Opcode::for_ ? 3 : op.code == Opcode::while_ ? 0 : op.operands.size();
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i] != v || terminator) continue;
      read |= i < inits || is_read(op, op.blocks[0]->args[(inits ? 1 : 0) + i - inits]);
    }
  });
  return read;
}

}  // namespace

void Recorder::remark(ir::Severity severity, std::string text) {
  graph_->remarks.push_back({severity, "trace", builder_.loc(), std::move(text)});
}

/// The pragma that stands before the loop, or null.
const pragma::LoopPragma* Recorder::pragma_of(const bytecode::Instruction& for_iter) const {
  if (frame_->function >= 0 || for_iter.op != bytecode::Op::for_iter_) return nullptr;
  for (const pragma::Placed& placed : region_.pragmas) {
    if (placed.pragma.loop && speaks_of(placed, for_iter.position)) return &*placed.pragma.loop;
  }
  return nullptr;
}

/// What the frame's names hold at entry.
Ref Recorder::entry_names() const {
  Ref locals = Ref::steal(PyDict_New());
  for (int i = 0; locals && i < scope_.code->co_nlocalsplus; ++i) {
    PyObject* value = entry_object(i);
    if (value) PyDict_SetItem(locals.get(), PyTuple_GET_ITEM(scope_.code->co_localsplusnames, i), value);
  }
  return locals;
}

/// The value of an argument: an expression is evaluated with what the frame's names hold at entry. A hint that has no
/// value is no hint.
int64_t Recorder::clause_value(const pragma::IntArg& argument, const char* clause) {
  if (argument.text.empty()) return argument.value;
  const std::optional<int64_t> value = value_of(argument.text, entry_names().get());
  const std::string why = !value ? take_error() : *value <= 0 ? "it is not positive" : "";
  if (why.empty()) return *value;
  remark(ir::Severity::warning, std::string(clause) + "(" + argument.text + ") is ignored: " + why);
  return 0;
}

/// Warns of clauses that say something else than the loop's body does.
void Recorder::review_clauses(const pragma::LoopPragma& pragma, const LoopContext& c, ir::Op& loop) {
  const auto warn = [&](const std::string& clause, const std::string& why) {
    remark(ir::Severity::warning, clause + " is ignored: " + why);
  };
  const auto slot_of = [&](const std::string& name) {
    for (int i = 0; i < scope_.code->co_nlocalsplus; ++i) {
      if (variable_name(i) == name) return i;
    }
    for (size_t g = 0; g < stored_globals_.size(); ++g) {
      if (PyUnicode_CompareWithASCIIString(stored_globals_[g], name.c_str()) == 0) {
        return scope_.code->co_nlocalsplus + static_cast<int>(g);
      }
    }
    return -1;
  };
  const auto known = [&](const std::string& clause, const std::string& name) {
    if (slot_of(name) >= 0 || PyDict_GetItemString(scope_.globals, name.c_str())) return true;
    warn(clause, "there is no variable " + name);
    return false;
  };
  // The first word of the slot among the loop's carried values, or -1 where the loop does not assign it.
  const auto word_of = [&](const std::string& name) {
    const int slot = slot_of(name);
    std::vector<ir::Type> types;
    for (size_t k = 0; k < c.carried.size(); ++k) {
      const auto first = static_cast<int>(types.size());
      append_types(c.plan[k], types);
      if (static_cast<int>(c.carried[k]) == slot) return c.plan[k].value ? first : -1;
    }
    return -1;
  };
  const auto argument = [&](int word) { return loop.blocks[0]->args[1 + static_cast<size_t>(word)]; };
  const bool ends = loop.blocks[0]->last->code == Opcode::yield_;
  for (const std::string& name : pragma.shared) known("shared(" + name + ")", name);
  for (const std::string& name : pragma.private_) {
    const std::string clause = "private(" + name + ")";
    if (!known(clause, name)) continue;
    const int word = word_of(name);
    if (word >= 0 && is_read(loop, argument(word))) warn(clause, name + " is read before it is assigned");
  }
  for (const pragma::ReductionClause& reduction : pragma.reductions) {
    for (const std::string& name : reduction.names) {
      const std::string clause = "reduction(" + reduction.op + ": " + name + ")";
      if (!known(clause, name)) continue;
      const int word = word_of(name);
      if (word < 0 || !ends) continue;
      const std::set<Opcode> ops = updates(loop, static_cast<size_t>(word), argument(word));
      const auto other = [&](Opcode code) { return contradicts(reduction.op, code); };
      if (std::any_of(ops.begin(), ops.end(), other)) warn(clause, name + " is updated in another way");
    }
  }
}

}  // namespace appy::trace
