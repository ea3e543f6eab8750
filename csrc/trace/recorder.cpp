#include "trace/recorder.h"

#include <algorithm>

#include "pycompat/locals.h"
#include "runtime/numpy.h"
#include "support/abort.h"
#include "trace/recorder_loop.h"

namespace appy::trace {

using bytecode::Instruction;
using bytecode::Op;

namespace {

bool always_true(const ir::Value* v) { return v->op && v->op->code == ir::Opcode::const_ && v->op->imm; }

std::string text_of(PyObject* name) {
  const char* text = name ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

}  // namespace

Recorder::Recorder(const Region& region, const runtime::Scope& scope, const EntryVariables& entry_variables)
    : region_(region),
      scope_(scope),
      entry_variables_(entry_variables),
      graph_(std::make_unique<ir::Graph>()),
      builder_(*graph_) {
  graph_->name = text_of(region.code->co_name);
  graph_->exact = region.exact;
  graph_->may_alias = region.may_alias;
}

void Recorder::abort(AbortId id, std::string detail) const {
  throw Abort(id, std::move(detail), line_, frame_ ? frame_->file : std::string());
}

/// Finds the region's instructions and the variables that they store to.
void Recorder::prepare() {
  PyCodeObject* code = region_.code;
  auto text = std::make_unique<Code>();
  text->instructions = bytecode::instructions(code);
  region_frame_.code = code;
  region_frame_.globals = scope_.globals;
  region_frame_.builtins = scope_.builtins;
  region_frame_.file = text_of(code->co_filename);
  frame_ = &region_frame_;

  const auto at = [&](int offset) {
    const auto& all = text->instructions;
    return static_cast<int>(
        std::lower_bound(all.begin(), all.end(), offset, [](const Instruction& i, int o) { return i.offset < o; }) -
        all.begin());
  };
  const int first = at(region_.begin), last = at(region_.end);
  if (first >= last) abort(AbortId::empty_region_);
  line_ = text->instructions[static_cast<size_t>(first)].position.line;

  // A handler that does not cover the region's first instruction belongs to a `try` inside.
  const std::vector<bytecode::Handler> handlers = bytecode::handlers(code);
  const auto handler_at = [&](int offset) {
    for (const bytecode::Handler& h : handlers) {
      if (offset >= h.begin && offset < h.end) return h.target;
    }
    return -1;
  };
  const int outside = handler_at(region_.begin);

  text->cfg = std::make_unique<bytecode::Cfg>(text->instructions, first, last);
  const bytecode::Cfg& cfg = *text->cfg;
  if (!cfg.fault().empty()) abort(AbortId::control_flow_, cfg.fault());
  std::vector<size_t> globals;
  for (const bytecode::Node& n : cfg.nodes()) {
    if (n.kind != bytecode::Node::Kind::block || !n.reachable) continue;
    for (int k = n.first; k <= n.last; ++k) {
      const Instruction& i = text->instructions[static_cast<size_t>(k)];
      const int handler = handler_at(i.offset);
      if (handler >= 0 && handler != outside) {
        line_ = i.position.line;
        abort(AbortId::handler_);
      }
      switch (i.op) {
        case Op::store_fast_:
        case Op::delete_fast_:
        case Op::store_deref_:
        case Op::delete_deref_:
          stored_.push_back(static_cast<size_t>(i.arg));
          break;
        case Op::store_global_:
        case Op::delete_global_: {
          PyObject* name = PyTuple_GET_ITEM(code->co_names, i.arg);
          if (std::find(stored_globals_.begin(), stored_globals_.end(), name) == stored_globals_.end()) {
            stored_globals_.push_back(name);
          }
          break;
        }
        default:
          break;
      }
    }
  }
  std::sort(stored_.begin(), stored_.end());
  stored_.erase(std::unique(stored_.begin(), stored_.end()), stored_.end());
  const size_t locals = static_cast<size_t>(code->co_nlocalsplus);
  for (size_t g = 0; g < stored_globals_.size(); ++g) stored_.push_back(locals + g);
  variables_ = locals + stored_globals_.size();
  region_frame_.text = text.get();
  for (size_t n = 0; n < cfg.nodes().size(); ++n) {
    if (cfg.nodes()[n].kind == bytecode::Node::Kind::ret) {
      returns_.emplace_back(static_cast<int>(n), static_cast<int>(returns_.size()) + 1);
    }
  }
  region_frame_.result = variables_;
  region_frame_.stack = variables_ + returns_.size();
  codes_[nullptr] = std::move(text);
}

Result Recorder::run() {
  prepare();
  slots_.assign(variables_, Slot::entry());
  // What enclosing loops and `with` blocks have on the stack; a return inside the statement pops it.
  constexpr size_t enclosing = 8;
  slots_.resize(region_frame_.stack + enclosing);
  for (const auto& [variable, constant] : entry_variables_) {
    slots_[static_cast<size_t>(variable)] = Slot::of(entry_value(variable));
  }
  const bytecode::Cfg& cfg = *region_frame_.text->cfg;
  Stops stops(cfg.nodes().size(), false);
  for (size_t n = 0; n < stops.size(); ++n) stops[n] = cfg.nodes()[n].kind != bytecode::Node::Kind::block;
  finish(execute(cfg.entry(), std::move(slots_), stops));
  return {std::move(graph_), std::move(signature_)};
}

void Recorder::snapshot(ir::Op* op) {
  std::vector<Slot>& to = snapshots_[op];
  if (reordered_ > 0) {
    to = reordered_state_;
    return;
  }
  to.reserve(stored_.size());
  for (size_t slot : stored_) to.push_back(slot < slots_.size() ? slots_[slot] : Slot{});
}

void Recorder::check(ir::Check check, ir::Value* ok, std::span<ir::Value* const> info) {
  if (finishing_ || always_true(ok)) return;
  check.has_state = true;
  snapshot(builder_.check(std::move(check), ok, info, {}));
}

void Recorder::mark_written(const Traced& array) {
  if (!array.writeable) {
    const std::string name = array.input >= 0 ? signature_.inputs[static_cast<size_t>(array.input)].name : "";
    abort(AbortId::read_only_, name);
  }
  for (runtime::Input& in : signature_.inputs) {
    if (in.guard == runtime::Input::Guard::array && array.value == graph_->body->args[static_cast<size_t>(in.param)]) {
      in.written = true;
    }
  }
}

/// An output of this shape: its result types are appended.
void Recorder::add_output(const Merged& m, runtime::Output out, std::vector<ir::Type>& types) {
  const auto place = [&](ir::DType t) {
    types.push_back(ir::scalar(t));
    return static_cast<int>(types.size()) - 1;
  };
  const Traced& t = m.shape.traced;
  std::vector<ir::Type> own;
  append_types(m, own);
  size_t next = 0;
  if (m.value) {
    out.result = place(own[next++].dtype);
    out.type = m.join.type;
    if (m.tag) {
      out.tag = place(own[next++].dtype);
      out.types = m.join.types;
    }
  } else if (t.kind == Kind::array || t.kind == Kind::object || (t.kind == Kind::tuple && t.input >= 0)) {
    out.input = t.input;
    if (t.input < 0) out.object = t.object;
  } else if (t.kind != Kind::unbound) {
    abort(AbortId::live_out_, t.kind == Kind::tuple ? "a tuple" : "a range");
  }
  if (m.bound) out.bound = place(own[next++].dtype);
  signature_.outputs.push_back(std::move(out));
}

void Recorder::finish(Outcome o) {
  std::vector<ir::Op*> guards;
  ir::walk(*graph_->body, [&](ir::Op& op) {
    if (snapshots_.count(&op)) guards.push_back(&op);
  });
  const bool ends = !o.targets.empty();
  const Slot nothing;
  const auto last = [&](size_t slot) { return ends && slot < o.slots.size() ? settled(o.slots[slot], slot) : nothing; };
  for (auto& [guard, slots] : snapshots_) {
    for (size_t k = 0; k < slots.size(); ++k) slots[k] = settled(slots[k], stored_[k]);
  }
  const auto exit_of = [&](int node) {
    for (auto [ret, exit] : returns_) {
      if (ret == node) return exit;
    }
    return 0;
  };

  // Each variable has one type at the end and at all checks.
  struct Place {
    Merged merged;
    size_t slot = 0;
    int stored = -1;  // index in stored_; -1: the value of a return
  };
  std::vector<Place> places;
  std::vector<ir::Type> types;
  for (size_t k = 0; k < stored_.size(); ++k) {
    const size_t slot = stored_[k];
    Place place{merge(last(slot), last(slot), true), slot, static_cast<int>(k)};
    Slot so_far = last(slot);
    for (const ir::Op* guard : guards) {
      const Slot& then = snapshots_[guard][k];
      if (same(so_far, then)) continue;
      place.merged = merge(so_far, then, true);
      if (place.merged.needs_entry) throw Restart{static_cast<int>(slot)};
      so_far = placeholder(place.merged);
    }
    if (place.merged.shape.kind == Slot::Kind::conflict) abort(AbortId::path_types_, place.merged.shape.why);
    if (place.merged.shape.kind != Slot::Kind::value) continue;
    runtime::Output out;
    const int index = static_cast<int>(slot);
    const auto entry = entry_values_.find(index);
    if (place.merged.shape.traced.kind == Kind::unbound && entry != entry_values_.end() &&
        entry->second.kind == Kind::unbound) {
      continue;
    }
    if (index < region_.code->co_nlocalsplus) {
      out.to = pycompat::is_cell(region_.code, index) ? runtime::Output::To::cell : runtime::Output::To::fast;
      out.index = index;
    } else {
      out.to = runtime::Output::To::global;
      out.name = Ref::borrow(stored_globals_[slot - static_cast<size_t>(region_.code->co_nlocalsplus)]);
    }
    out.unset = place.merged.bound && !place.merged.shape.maybe_entry && entry != entry_values_.end() &&
                entry->second.kind != Kind::unbound;
    add_output(place.merged, std::move(out), types);
    places.push_back(std::move(place));
  }
  for (const Outcome::Target& t : o.targets) {
    const int exit = exit_of(t.node);
    if (!exit) continue;
    const size_t slot = region_frame_.result + static_cast<size_t>(exit) - 1;
    Place place{merge(last(slot), last(slot), true), slot, -1};
    if (place.merged.shape.kind == Slot::Kind::conflict) abort(AbortId::path_types_, place.merged.shape.why);
    runtime::Output out;
    out.to = runtime::Output::To::ret;
    out.index = exit;
    add_output(place.merged, std::move(out), types);
    places.push_back(std::move(place));
  }
  const bool leaves = std::any_of(o.targets.begin(), o.targets.end(), [&](const auto& t) { return exit_of(t.node); });
  if (leaves) {
    signature_.exit = static_cast<int>(types.size());
    types.push_back(ir::scalar(ir::DType::i64_));
  }

  finishing_ = true;
  std::vector<ir::Value*> results;
  for (const Place& place : places) append_words(*this, place.merged, last(place.slot), results);
  if (leaves) {
    ir::Value* exit = builder_.i64(exit_of(o.targets.back().node));
    for (size_t t = o.targets.size() - 1; t-- > 0;) {
      exit = builder_.select(select(o, t), builder_.i64(exit_of(o.targets[t].node)), exit);
    }
    results.push_back(exit);
  }
  builder_.yield(results);
  for (ir::Op* guard : guards) {
    builder_.set_before(guard);
    builder_.set_loc(guard->loc);
    const std::vector<Slot>& then = snapshots_[guard];
    std::vector<ir::Value*> state;
    for (const Place& place : places) {
      append_words(*this, place.merged, place.stored < 0 ? nothing : then[static_cast<size_t>(place.stored)], state);
    }
    if (leaves) state.push_back(builder_.i64(0));
    guard->operands.insert(guard->operands.end(), state.begin(), state.end());
  }
  for (size_t k = 0; k < signature_.outputs.size(); ++k) {
    const runtime::Output& out = signature_.outputs[k];
    const std::string name = out.to == runtime::Output::To::ret      ? "return"
                             : out.to == runtime::Output::To::global ? text_of(out.name.get())
                                                                     : variable_name(out.index);
    graph_->result_names.resize(types.size());
    if (out.result >= 0) graph_->result_names[static_cast<size_t>(out.result)] = name;
    if (out.tag >= 0) graph_->result_names[static_cast<size_t>(out.tag)] = name + "_type";
    if (out.bound >= 0) graph_->result_names[static_cast<size_t>(out.bound)] = name + "_bound";
  }
  graph_->result_names.resize(types.size());
  if (leaves) graph_->result_names.back() = "exit";
}

Result trace(const Region& region, const runtime::Scope& scope) {
  EntryVariables entry_variables;
  for (;;) {
    try {
      return Recorder(region, scope, entry_variables).run();
    } catch (const Restart& restart) {
      const auto [known, fresh] = entry_variables.try_emplace(restart.variable, false);
      const bool constant = restart.constant && !known->second;
      known->second |= constant;
      if (!fresh && !constant) {
        throw Abort(AbortId::path_types_, "a variable that is not bound on every path");
      }
    }
  }
}

}  // namespace appy::trace
