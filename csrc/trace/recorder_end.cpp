// The end of a trace: what each variable holds there and at every check, as outputs of the signature and words of the
// graph.
#include <algorithm>
#include <cstring>
#include <span>

#include "pycompat/locals.h"
#include "support/abort.h"
#include "trace/recorder.h"
#include "trace/recorder_loop.h"
#include "trace/tensor.h"

namespace appy::trace {

using bytecode::Instruction;
using bytecode::Op;

namespace {

constexpr const char* opaque_words[] = {"FAST", "JUMP", "FOR", "SEND", "THROW"};

/// The array in memory that the value is as a whole, or null.
const ir::Value* array_of(const Traced& t) {
  return t.kind == Kind::array || t.kind == Kind::complex ? t.value : nullptr;
}

/// What cannot be left in a variable, or would cost an array.
bool is_costly(const Slot& last) {
  if (last.kind == Slot::Kind::conflict) return true;
  if (last.kind != Slot::Kind::value) return false;
  switch (last.traced.kind) {
    case Kind::array:
      return last.traced.value->op != nullptr;
    case Kind::complex:
      return last.traced.value ? last.traced.value->op != nullptr : !last.traced.items[0].is_scalar();
    case Kind::tuple:
      return last.traced.input < 0;
    case Kind::tensor:
    case Kind::range:
    case Kind::slice:
      return true;
    default:
      return false;
  }
}

/// Could an instruction without a row of its own read a local variable, or jump?
bool is_opaque(const Instruction& i) {
  if (i.op != Op::unsupported_) return false;
  const std::string name = pycompat::raw_name(i.arg);
  return std::any_of(std::begin(opaque_words), std::end(opaque_words),
                     [&](const char* word) { return name.find(word) != std::string::npos; });
}

/// The compiler has put the statement at offset `begin` in other places as well, as it does with what `finally` runs.
/// What is made of one copy runs in all of them.
bool has_copies(const std::vector<Instruction>& text, int begin, int end) {
  const auto first = std::find_if(text.begin(), text.end(), [&](const Instruction& i) {
    return i.offset >= begin && i.position.line > 0 && i.op != Op::nop_;
  });
  const auto is_copy = [&](const Instruction& i) { return i.op == first->op && i.position == first->position; };
  const auto behind = text.begin() + end;
  return first < behind && (std::any_of(behind, text.end(), is_copy) || std::any_of(text.begin(), first, is_copy));
}

/// Variables that may be read from instruction `start` on, or by the handler of what the region at offset `begin`
/// raises, by localsplus.
std::vector<bool> live_variables(PyCodeObject* code, const std::vector<Instruction>& text, int begin, int start) {
  const auto variables = static_cast<size_t>(code->co_nlocalsplus);
  if (has_copies(text, begin, start)) return std::vector<bool>(variables, true);
  for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(code->co_names); ++n) {
    // What looks into the frame sees every variable.
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_names, n));
    for (const char* looks : {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack",
                              "breakpoint", "set_trace", "evaluate", "query"}) {
      if (name && std::strcmp(name, looks) == 0) return std::vector<bool>(variables, true);
    }
  }
  PyErr_Clear();
  std::vector<int> handler(text.size(), -1);
  for (const bytecode::Handler& h : bytecode::handlers(code)) {
    const auto target = std::lower_bound(text.begin(), text.end(), h.target,
                                         [](const Instruction& i, int offset) { return i.offset < offset; });
    for (size_t k = 0; k < text.size(); ++k) {
      if (text[k].offset >= h.begin && text[k].offset < h.end) handler[k] = static_cast<int>(target - text.begin());
    }
  }
  // Backwards to a fixpoint: live before an instruction is what it reads, and what is live after it and not stored. A
  // row of bits an instruction, and one of none for what the text does not have.
  const size_t width = variables / 64 + 1;
  std::vector<uint64_t> bits((text.size() + 1) * width), now(width);
  const auto row = [&](size_t k) { return std::span(bits).subspan(std::min(k, text.size()) * width, width); };
  const auto bit = [](size_t variable) { return uint64_t{1} << variable % 64; };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = text.size(); k-- > 0;) {
      const Instruction& i = text[k];
      std::fill(now.begin(), now.end(), is_opaque(i) ? ~uint64_t{0} : 0);
      const auto flows_from = [&](size_t next) {
        for (size_t w = 0; w < width; ++w) now[w] |= row(next)[w];
      };
      const bool jumps = bytecode::is_jump(i.op);
      if (!bytecode::is_terminal(i) && (!jumps || bytecode::is_conditional_jump(i.op))) flows_from(k + 1);
      if (jumps) flows_from(static_cast<size_t>(i.arg));
      const auto variable = static_cast<size_t>(i.arg);
      if (i.op == Op::store_fast_ && variable < variables) now[variable / 64] &= ~bit(variable);
      if (handler[k] >= 0) flows_from(static_cast<size_t>(handler[k]));
      if ((i.op == Op::load_fast_ || i.op == Op::load_fast_check_ || i.op == Op::delete_fast_) &&
          variable < variables) {
        now[variable / 64] |= bit(variable);
      }
      if (std::equal(now.begin(), now.end(), row(k).begin())) continue;
      std::copy(now.begin(), now.end(), row(k).begin());
      changed = true;
    }
  }
  const auto add = [&](std::vector<bool>& out, size_t from) {
    for (size_t v = 0; v < variables; ++v) out[v] = out[v] || row(from)[v / 64] & bit(v);
  };
  std::vector<bool> out(variables);
  add(out, static_cast<size_t>(start));
  for (size_t k = 0; k < text.size(); ++k) {
    if (text[k].offset < begin) continue;
    if (handler[k] >= 0) add(out, static_cast<size_t>(handler[k]));
    break;
  }
  for (size_t v = 0; v < variables; ++v) {
    if (pycompat::is_cell(code, static_cast<int>(v))) out[v] = true;
  }
  return out;
}

/// Only loops inside the first one, of the instructions from offset `begin` on, set this variable.
bool set_inside(const std::vector<Instruction>& text, int begin, int end, size_t slot) {
  size_t inside = 0;  // where the loop inside ends that reaches furthest
  bool outermost = true, found = false;
  for (size_t k = 0; k < static_cast<size_t>(end); ++k) {
    const Instruction& i = text[k];
    if (i.offset < begin) continue;
    if (i.op == Op::for_iter_) {
      if (!outermost) inside = std::max(inside, static_cast<size_t>(i.arg));
      outermost = false;
    } else if (i.op == Op::store_fast_ && static_cast<size_t>(i.arg) == slot) {
      if (k >= inside) return false;
      found = true;
    }
  }
  return found;
}

/// From instruction `start` on the function returns what its variables and constants hold, and nothing else: nobody is
/// left who could look at the others.
bool only_returns(const std::vector<Instruction>& text, size_t start) {
  for (size_t k = start, steps = 0; k < text.size() && steps < text.size(); ++steps) {
    switch (text[k].op) {
      case Op::return_value_:
        return true;
      case Op::jump_:
        if (static_cast<size_t>(text[k].arg) <= k) return false;
        k = static_cast<size_t>(text[k].arg);
        continue;
      case Op::nop_:
      case Op::load_fast_:
      case Op::load_const_:
      case Op::build_tuple_:
        ++k;
        continue;
      default:
        return false;
    }
  }
  return false;
}

}  // namespace

/// An output of this shape: its result types are appended.
void Recorder::add_output(const Merged& m, runtime::Output out, std::vector<ir::Type>& types) {
  const auto place = [&](ir::DType t) {
    types.push_back(ir::scalar(t));
    return static_cast<int>(types.size()) - 1;
  };
  const Traced& t = m.shape.traced;
  const Traced& number = t.kind != Kind::complex ? t
                         : !m.items.empty()      ? m.items[0].shape.traced
                         : t.value               ? t
                                                 : t.items[0];
  if (number.outdated) abort(AbortId::element_, "a variable is an element of an array that was stored to since");
  if (numpy_scalars_ && is_zero_d_array(number))
    abort(AbortId::live_out_, "a NumPy scalar beside arrays of another library");
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
  } else if (t.kind == Kind::complex && !m.items.empty()) {
    if (m.bound) out.bound = place(own[next++].dtype);
    out.result = place(own[next++].dtype);
    out.type = m.items[0].join.type;
    if (m.items[0].tag) {
      out.tag = place(own[next++].dtype);
      out.types = m.items[0].join.types;
    }
    out.imaginary = place(own[next++].dtype);
    if (m.items[1].tag) place(own[next++].dtype);
    signature_.outputs.push_back(std::move(out));
    return;
  } else if (array_of(t) && t.value->op) {
    out.alloc = t.value->op->slot;
  } else if (array_of(t) || t.kind == Kind::object || (t.kind == Kind::tuple && t.input >= 0)) {
    out.input = t.input;
    if (t.input < 0) out.object = t.object;
  } else if (t.kind != Kind::unbound) {
    abort(AbortId::live_out_, t.kind == Kind::tuple                               ? "a tuple"
                              : t.kind == Kind::tensor || t.kind == Kind::complex ? "a part of an array"
                                                                                  : "a range");
  }
  if (m.bound) out.bound = place(own[next++].dtype);
  signature_.outputs.push_back(std::move(out));
}

/// Nothing reads the variable any more, and
/// - what it holds cannot be left in it, or would cost an array, or would have to come from a device; or
/// - loops inside alone set it: which of their iterations came last, where they may be empty, takes more than some
/// loops do, and keeps them from being divided; or
/// - the function returns at once. Where exceptions tell of it, it stays in these two cases; or
/// - the region is to do without all of these.
bool Recorder::may_drop(size_t slot, size_t stored, const Slot& last) {
  if (slot >= static_cast<size_t>(region_.code->co_nlocalsplus)) return false;
  const bool element = last.kind == Slot::Kind::value && is_zero_d_array(last.traced);
  const std::vector<Instruction>& text = region_frame_.text->instructions;
  const bool unseen = (only_returns(text, static_cast<size_t>(end_)) || set_inside(text, region_.begin, end_, slot)) &&
                      std::all_of(snapshots_.begin(), snapshots_.end(),
                                  [&](const auto& at) { return is_as_at_entry(at.second[stored], slot); });
  if (!(is_costly(last) || element || for_device() || region_.drops_dead || unseen)) return false;
  if (live_after_.empty()) {
    live_after_ = live_variables(region_.code, text, region_.begin, end_);
  }
  return !live_after_[slot];
}

bool Recorder::is_as_at_entry(const Slot& then, size_t slot) const {
  if (then.kind != Slot::Kind::value) return then.kind == Slot::Kind::entry;
  if (then.traced.kind == Kind::unbound) return true;
  const auto entry = entry_values_.find(static_cast<int>(slot));
  return entry != entry_values_.end() && same(then.traced, entry->second);
}

/// Does the variable hold different arrays at the end and at checks?
bool Recorder::is_choice(const Slot& last, size_t stored) const {
  const auto fits = [](const Slot& s) {
    if (s.kind == Slot::Kind::entry) return true;
    if (s.kind != Slot::Kind::value || s.maybe_entry || s.traced.bound) return false;
    return s.traced.kind == Kind::unbound || (array_of(s.traced) && (s.traced.value->op || s.traced.input >= 0));
  };
  if (!fits(last) || last.kind != Slot::Kind::value || !array_of(last.traced)) return false;
  bool differs = false;
  for (const auto& [guard, slots] : snapshots_) {
    if (!fits(slots[stored])) return false;
    differs |= slots[stored].kind == Slot::Kind::value && array_of(slots[stored].traced) && !same(slots[stored], last);
  }
  return differs;
}

/// The word that says which array the variable holds (runtime::Output::which).
ir::Value* Recorder::choice(const Slot& s) {
  if (s.kind != Slot::Kind::value) return builder_.i64(-1);
  if (!array_of(s.traced)) return builder_.i64(-2);
  const ir::Op* made = s.traced.value->op;
  return builder_.i64(made ? runtime::Output::first_slot + made->slot : s.traced.input);
}

/// Does the variable hold a view at the end, and at every check a view of this kind or what it had at entry?
bool Recorder::is_view(const Slot& last, size_t slot, int stored) const {
  const auto view = [](const Slot& s) {
    return s.kind == Slot::Kind::value && s.traced.kind == Kind::tensor && s.traced.tensor->is_view();
  };
  if (!view(last)) return false;
  const Traced& base = last.traced.tensor->base;
  if (!base.value->op && base.input < 0) return false;
  for (const auto& [guard, slots] : snapshots_) {
    if (stored < 0) break;
    const Slot& then = slots[static_cast<size_t>(stored)];
    if (!is_as_at_entry(then, slot) && !(view(then) && same_kind_of_view(then.traced, last.traced))) return false;
  }
  return true;
}

runtime::Output Recorder::view_output(const Slot& last, runtime::Output out, std::vector<ir::Type>& types) {
  const Tensor& t = *last.traced.tensor;
  if (signature_.library != runtime::Library::numpy) {
    std::vector<bool> seen(t.shape.size(), false);
    bool plain = runtime::makes_arrays(signature_.library);
    for (const Axis& axis : t.axes) {
      if (axis.dim < 0) continue;
      plain &= !seen[static_cast<size_t>(axis.dim)];
      seen[static_cast<size_t>(axis.dim)] = true;
    }
    for (size_t d = 0; d < seen.size(); ++d) plain &= seen[d] || is_one(t.shape[d]);
    if (!plain) abort(AbortId::live_out_, "such a part of an array");
  }
  out.view = true;
  if (t.base.value->op) {
    out.alloc = t.base.value->op->slot;
  } else {
    out.input = t.base.input;
  }
  for (const Axis& axis : t.axes) out.axes.push_back({axis.dim, axis.step});
  out.rank = t.rank();
  out.writeable = t.base.writeable;
  out.which = static_cast<int>(types.size());
  types.insert(types.end(), 1 + t.axes.size() + t.shape.size(), ir::scalar(ir::DType::i64_));
  return out;
}

/// The words of a view_output of `of`, where the variable holds `now`.
void Recorder::append_view(const Slot& of, const Slot& now, size_t slot, std::vector<ir::Value*>& words) {
  const size_t count = of.traced.tensor->axes.size() + of.traced.tensor->shape.size();
  const bool holds = now.kind == Slot::Kind::value && now.traced.kind == Kind::tensor;
  if (!holds) {
    const bool unbound = now.kind == Slot::Kind::value && now.traced.kind == Kind::unbound;
    const auto entry = entry_values_.find(static_cast<int>(slot));
    const bool was_unbound = entry != entry_values_.end() && entry->second.kind == Kind::unbound;
    words.push_back(builder_.i64(unbound && !was_unbound ? runtime::Output::unbind : runtime::Output::keep));
    for (size_t k = 0; k < count; ++k) words.push_back(builder_.i64(0));
    return;
  }
  ir::Value* which = builder_.i64(0);
  if (now.traced.bound) {
    const int64_t otherwise = now.maybe_entry ? runtime::Output::keep : runtime::Output::unbind;
    which = builder_.select(now.traced.bound, which, builder_.i64(otherwise));
  }
  words.push_back(which);
  for (const Traced& word : view_words(now.traced)) words.push_back(word.value);
}

/// The array outlives the region.
void Recorder::escape(const Slot& s) {
  if (s.kind == Slot::Kind::value && s.traced.kind == Kind::tensor && s.traced.tensor->is_view()) {
    escape(Slot::of(s.traced.tensor->base));
    return;
  }
  if (s.kind != Slot::Kind::value || !array_of(s.traced)) return;
  ir::Op* made = s.traced.value->op;
  if (!made) return;
  if (made->parent != graph_->body) abort(AbortId::live_out_, "an array made in a loop or a conditional");
  if (!runtime::makes_arrays(signature_.library)) {
    abort(AbortId::live_out_, std::string("a new array beside one with ") + runtime::name_of(signature_.library));
  }
  made->escapes = true;
  std::vector<int>& pairs = signature_.complex_arrays;
  const bool known = std::find(pairs.begin(), pairs.end(), made->slot) != pairs.end();
  if (s.traced.kind == Kind::complex && !known) pairs.push_back(made->slot);
}

/// Locked instructions on unaligned words are slow, or forbidden.
void Recorder::refuse_unaligned_atomics() const {
  ir::walk(*graph_->body, [&](ir::Op& op) {
    if (op.code != ir::Opcode::atomic_) return;
    for (const runtime::Input& in : signature_.inputs) {
      const bool array = in.guard == runtime::Input::Guard::array && !in.aligned;
      if (array && op.view() == graph_->body->args[static_cast<size_t>(in.param)]) abort(AbortId::unaligned_, in.name);
    }
  });
}

void Recorder::finish(Outcome o) {
  refuse_unaligned_atomics();
  require_place();
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
  const bool leaves = std::any_of(o.targets.begin(), o.targets.end(), [&](const auto& t) { return exit_of(t.node); });

  // Each variable has one type at the end and at all checks.
  struct Place {
    Merged merged;
    bool choice = false;  // of arrays
    bool view = false;
    size_t slot = 0;
    int stored = -1;  // index in stored_; -1: the value of a return
  };
  std::vector<Place> places;
  std::vector<ir::Type> types;
  for (size_t k = 0; k < stored_.size(); ++k) {
    const size_t slot = stored_[k];
    if (!leaves && may_drop(slot, k, last(slot))) continue;
    Place place{merge(last(slot), last(slot), true), false, false, slot, static_cast<int>(k)};
    Slot so_far = last(slot);
    escape(so_far);
    for (const ir::Op* guard : guards) escape(snapshots_[guard][k]);
    place.choice = is_choice(so_far, k);
    place.view = is_view(so_far, slot, static_cast<int>(k));
    for (const ir::Op* guard : guards) {
      const Slot& then = snapshots_[guard][k];
      if (place.choice || place.view || same(so_far, then)) continue;
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
    if (place.view) {
      signature_.outputs.push_back(view_output(last(slot), std::move(out), types));
    } else if (place.choice) {
      out.which = static_cast<int>(types.size());
      types.push_back(ir::scalar(ir::DType::i64_));
      signature_.outputs.push_back(std::move(out));
    } else {
      add_output(place.merged, std::move(out), types);
    }
    places.push_back(std::move(place));
  }
  for (const Outcome::Target& t : o.targets) {
    const int exit = exit_of(t.node);
    if (!exit) continue;
    const size_t slot = region_frame_.result + static_cast<size_t>(exit) - 1;
    Place place{merge(last(slot), last(slot), true), false, is_view(last(slot), slot, -1), slot, -1};
    escape(last(slot));
    if (place.merged.shape.kind == Slot::Kind::conflict) abort(AbortId::path_types_, place.merged.shape.why);
    runtime::Output out;
    out.to = runtime::Output::To::ret;
    out.index = exit;
    if (place.view) {
      signature_.outputs.push_back(view_output(last(slot), std::move(out), types));
    } else {
      add_output(place.merged, std::move(out), types);
    }
    places.push_back(std::move(place));
  }
  if (leaves) {
    signature_.exit = static_cast<int>(types.size());
    types.push_back(ir::scalar(ir::DType::i64_));
  }

  review_items();
  finishing_ = true;
  std::vector<ir::Value*> results;
  const auto append = [&](const Place& place, const Slot& slot, std::vector<ir::Value*>& words) {
    if (place.view) {
      append_view(last(place.slot), slot, place.slot, words);
    } else if (place.choice) {
      words.push_back(choice(slot));
    } else {
      append_words(*this, place.merged, slot, words);
    }
  };
  for (const Place& place : places) append(place, last(place.slot), results);
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
      append(place, place.stored < 0 ? nothing : then[static_cast<size_t>(place.stored)], state);
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
    if (out.which >= 0) graph_->result_names[static_cast<size_t>(out.which)] = name + "_array";
    if (out.result >= 0) graph_->result_names[static_cast<size_t>(out.result)] = name;
    if (out.tag >= 0) graph_->result_names[static_cast<size_t>(out.tag)] = name + "_type";
    if (out.bound >= 0) graph_->result_names[static_cast<size_t>(out.bound)] = name + "_bound";
  }
  graph_->result_names.resize(types.size());
  if (leaves) graph_->result_names.back() = "exit";
}

}  // namespace appy::trace
