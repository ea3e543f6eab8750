#include "trace/recorder.h"

#include <algorithm>

#include "ir/sizes.h"
#include "pycompat/locals.h"
#include "runtime/numpy.h"
#include "support/abort.h"
#include "trace/tensor.h"

namespace appy::trace {

using bytecode::Instruction;
using bytecode::Op;

namespace {

bool always_true(const ir::Value* v) { return v->op && v->op->code == ir::Opcode::const_ && v->op->imm; }

}  // namespace

std::string text_of(PyObject* name) {
  const char* text = name ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

Recorder::Recorder(const Region& region, const runtime::Scope& scope, const EntryVariables& entry_variables)
    : region_(region),
      scope_(scope),
      entry_variables_(entry_variables),
      graph_(std::make_unique<ir::Graph>()),
      builder_(*graph_) {
  graph_->name = text_of(region.code->co_name);
  graph_->exact = region.exact;
  graph_->auto_simd = region.auto_simd;
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

  text->cfg = std::make_unique<bytecode::Cfg>(text->instructions, first, last, false, region_.last_line);
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
  end_ = last;
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
  Result out{std::move(graph_), std::move(signature_), std::move(samples_), {}};
  for (const auto& [where, counts] : interpreted_) out.interpreted += counts;
  return out;
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
  materialise_pending();
  outdate_elements(array);
  for (runtime::Input& in : signature_.inputs) {
    if (in.guard == runtime::Input::Guard::array && array.value == graph_->body->args[static_cast<size_t>(in.param)]) {
      in.written = true;
    }
  }
}

ir::Value* Recorder::extent(const Traced& array, int dim) {
  const ir::Op* made = array.value->op;
  if (made) return made->operands[static_cast<size_t>(dim)];
  for (runtime::Input& in : signature_.inputs) {
    const bool own = in.guard == runtime::Input::Guard::array && in.same_view_as < 0;
    if (!own || array.value != graph_->body->args[static_cast<size_t>(in.param)]) continue;
    const runtime::ForeignArray& a = arrays_[static_cast<size_t>(&in - signature_.inputs.data())];
    in.single.resize(static_cast<size_t>(in.rank));
    const bool one = a.shape[static_cast<size_t>(dim)] == 1;
    in.single[static_cast<size_t>(dim)] = one ? runtime::Input::Single::yes : runtime::Input::Single::no;
    if (one) return builder_.i64(1);
  }
  return builder_.dim(array.value, dim);
}

std::optional<int64_t> Recorder::sample(const ir::Value* v) const { return samples_.of(v); }

bool Recorder::is_single(ir::Value* extent) {
  if (region_.any_count) return false;
  std::optional<ir::Formula> formula = ir::Formula::of(extent, *graph_);
  if (!formula) return false;
  const bool single = (*formula)(samples_.words(*graph_).data()) == 1;
  std::vector<runtime::AskedExtent>& all = signature_.asked;
  const auto same = [&](const runtime::AskedExtent& asked) { return asked.extent == *formula; };
  if (std::none_of(all.begin(), all.end(), same)) all.push_back({std::move(*formula), single});
  return single;
}

std::optional<bool> Recorder::settle(ir::Value* condition) {
  return region_.settles ? ir::settle(*graph_, *condition, samples_.words(*graph_)) : std::nullopt;
}

void Recorder::count_array(const Instruction& i) {
  using bytecode::Op;
  switch (i.op) {
    case Op::binary_op_:
      if (i.arg2) return;  // in place
      break;
    case Op::binary_subscr_:
    case Op::call_:
    case Op::call_kw_:
    case Op::compare_op_:
    case Op::load_attr_:
    case Op::unary_invert_:
    case Op::unary_negative_:
      break;
    default:
      return;
  }
  if (slots_.empty() || slots_.back().kind != Slot::Kind::value) return;
  const Traced& made = slots_.back().traced;
  const bool array = made.kind == Kind::array && made.value->op && made.value->op->code == ir::Opcode::alloc_;
  if (!is_lazy(made) && !array) return;
  bool in_loop = false;
  for (const Frame* frame = frame_; frame; frame = frame->caller) in_loop |= frame->loop != nullptr;
  ArrayCounts counts;
  ArrayCount& count = in_loop ? counts.each : counts.once;
  if (array) {
    count.add(samples_, made.value->type.dtype, made.value->op->operands);
  } else {
    count.add(samples_, made.tensor->dtype, made.tensor->shape);
  }
  interpreted_[{frame_->inlined_at, i.offset}] = counts;
}

void Recorder::poll() { snapshot(builder_.poll({})); }

bool Recorder::annotated() const {
  for (const pragma::Placed& p : region_.pragmas) {
    if (line_ >= p.line && line_ <= p.end_line) return frame_->function >= 0 || !p.pragma.loop || reordered_ > 0;
  }
  return frame_->function >= 0;
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
