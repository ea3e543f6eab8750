// Loops: carried values to a fixpoint, exits, pragmas.
#include <algorithm>
#include <cmath>

#include "support/abort.h"
#include "support/check.h"
#include "trace/recorder.h"
#include "trace/recorder_loop.h"
#include "trace/tagged.h"

namespace appy::trace {

using bytecode::Instruction;
using bytecode::Op;

namespace {

constexpr int max_attempts = 12;

void remove_after(ir::Block& block, ir::Op* mark) {
  while (block.last != mark) block.remove(block.last);
}

ir::Schedule schedule_of(pragma::LoopPragma::Schedule s) {
  switch (s) {
    case pragma::LoopPragma::Schedule::statically:
      return ir::Schedule::statically;
    case pragma::LoopPragma::Schedule::dynamic:
      return ir::Schedule::dynamic;
    default:
      return ir::Schedule::automatic;
  }
}

/// A number that sums, products, minima and maxima start with.
bool is_neutral(PyObject* o) {
  if (!o || (!PyFloat_CheckExact(o) && !PyLong_CheckExact(o))) return false;
  const double x = PyFloat_AsDouble(o);
  if (PyErr_Occurred()) PyErr_Clear();
  return x == 0 || x == 1 || std::isinf(x);
}

}  // namespace

/// Slots of the variables that the loop's own instructions store to.
std::vector<size_t> Recorder::stored_slots(const bytecode::NaturalLoop& loop) const {
  std::vector<size_t> out;
  const auto& nodes = frame_->text->cfg->nodes();
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!loop.body[n] || nodes[n].kind != bytecode::Node::Kind::block) continue;
    for (int i = nodes[n].first; i <= nodes[n].last; ++i) {
      const Instruction& instruction = frame_->text->instructions[static_cast<size_t>(i)];
      switch (instruction.op) {
        case Op::store_fast_:
        case Op::delete_fast_:
        case Op::store_deref_:
        case Op::delete_deref_:
          out.push_back(frame_->locals + static_cast<size_t>(instruction.arg));
          break;
        case Op::store_global_:
          if (const int slot = stored_global(PyTuple_GET_ITEM(frame_->code->co_names, instruction.arg)); slot >= 0) {
            out.push_back(static_cast<size_t>(slot));
          }
          break;
        default:
          break;
      }
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

ir::Loop Recorder::loop_attributes(const pragma::LoopPragma* pragma, bool leaves_early) {
  ir::Loop out;
  if (!pragma) return out;
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(std::min<int64_t>(v, INT32_MAX)); };
  const int64_t chunk = clause_value(pragma->chunk, "schedule"), block = clause_value(pragma->block, "block");
  out.annotated = true;
  out.parallel = pragma->parallel;
  out.simd = pragma->simd;
  out.schedule = schedule_of(pragma->schedule);
  out.chunk = chunk ? chunk : block;
  out.le = clause_value(pragma->le, "le");
  out.threads = narrow(clause_value(pragma->threads, "num_threads"));
  out.collapse = narrow(std::max<int64_t>(clause_value(pragma->collapse, "collapse"), 1));
  if (leaves_early && (out.parallel || out.simd)) {
    remark(ir::Severity::warning, "the loop is left by break or return, so it runs in order");
    out.parallel = out.simd = false;
  }
  return out;
}

/// A carried value that is a Python scalar at first and a NumPy one later, as in `s = 0.0; s += x[i]`, is carried in
/// the NumPy dtype where that holds the first value; where it turns out not to hold the others, as a wider type.
void Recorder::narrow(LoopContext& c, size_t k, const Slot& now, Merged& m) {
  const std::optional<ir::DType> dtype = m.value ? narrower(m.join) : std::nullopt;
  const size_t slot = c.carried[k];
  if (!dtype || c.wide.count(slot) || slot >= c.before.size()) return;
  const Slot first = settled(c.before[slot], slot);
  if (first.kind != Slot::Kind::value || first.traced.kind != Kind::scalar) return;
  const bool tried = c.plan[k].tag && c.plan[k].join.type.dtype == *dtype;
  if (tried && now.traced.kind == Kind::scalar && !holds(*dtype, now.traced)) {
    c.wide.insert(slot);
    return;
  }
  if (!holds(*dtype, first.traced)) {
    // What accumulators start with at the region's entry becomes a constant.
    const auto entry = entry_values_.find(static_cast<int>(slot));
    if (entry == entry_values_.end() || !same(entry->second, first.traced)) return;
    if (is_neutral(entry_object(entry->first))) throw Restart{entry->first, true};
    return;
  }
  m.join.type = {runtime::ScalarKind::np_scalar, *dtype};
  m.shape.traced.type = m.join.type;
}

/// The carried values at a back edge or an exit; zeros where the plan turned out too narrow.
std::vector<ir::Value*> Recorder::carried_words(LoopContext& c, const std::vector<Slot>& slots, size_t depth,
                                                int exit) {
  const Slot nothing;
  const auto slot_at = [&](size_t i) -> const Slot& { return i < depth && i < slots.size() ? slots[i] : nothing; };
  bool fits = true;
  for (size_t k = 0; k < c.carried.size(); ++k) {
    const Slot now = settled(slot_at(c.carried[k]), c.carried[k]);
    Slot then = settled(c.entry[c.carried[k]], c.carried[k]);
    if (c.widened && !same_shape(c.next[k], c.plan[k])) {
      // An earlier edge widened it: join with that.
      then = placeholder(c.next[k]);
      fits = false;
    }
    Merged m = now.kind == Slot::Kind::absent ? c.plan[k] : merge(then, now, true);
    if (m.needs_entry) throw Restart{static_cast<int>(c.carried[k])};
    narrow(c, k, now, m);
    if (!same_shape(m, c.plan[k])) {
      fits = false;
      c.widened = true;
      c.next[k] = std::move(m);
    }
  }
  const bool is_exit = exit >= 0;
  const size_t top = is_exit ? depth : c.entry.size();
  for (size_t i = 0; i < top; ++i) {
    if (std::binary_search(c.carried.begin(), c.carried.end(), i)) continue;
    const Slot then = settled(i < c.entry.size() ? c.entry[i] : nothing, i);
    const Slot now = settled(slot_at(i), i);
    if (same(then, now)) continue;
    Merged m = merge(then, now, true);
    if (m.needs_entry) throw Restart{static_cast<int>(i)};
    if (m.shape.kind == Slot::Kind::entry) continue;
    fits = false;
    c.widened = true;
    if (std::find(c.more.begin(), c.more.end(), i) == c.more.end()) {
      c.more.push_back(i);
      c.more_plan.push_back(std::move(m));
    }
  }
  std::vector<ir::Value*> words;
  slots_ = slots;  // conversions may check
  for (size_t k = 0; k < c.carried.size(); ++k) {
    append_words(*this, c.plan[k], fits ? slot_at(c.carried[k]) : nothing, words);
  }
  if (c.many_exits) words.push_back(builder_.i64(is_exit ? exit : c.exhausted));
  return words;
}

/// Ends the body: paths to the next iteration yield, paths out break.
void Recorder::close_body(LoopContext& c, Outcome o) {
  while (o.targets.size() > 1) {
    size_t out = 0;
    while (o.targets[out].node == c.loop->next) ++out;
    ir::Block* outer = builder_.block();
    ir::Op* op = builder_.if_op(select(o, out), {});
    builder_.set_block(op->blocks[0]);
    builder_.terminator(ir::Opcode::break_, carried_words(c, o.slots, o.targets[out].depth, o.targets[out].node));
    c.left(o.targets[out]);
    builder_.set_block(op->blocks[1]);
    builder_.yield({});
    builder_.set_block(outer);
    o = rest_of(o, out);
  }
  if (o.targets.empty()) {
    builder_.yield(carried_words(c, c.entry, c.entry.size(), -1));
  } else if (o.targets[0].node == c.loop->next) {
    builder_.yield(carried_words(c, o.slots, o.targets[0].depth, -1));
  } else {
    builder_.terminator(ir::Opcode::break_, carried_words(c, o.slots, o.targets[0].depth, o.targets[0].node));
    c.left(o.targets[0]);
  }
}

Outcome Recorder::loop(int index, std::vector<Slot> entry, const Stops& stops) {
  const bytecode::Cfg& cfg = *frame_->text->cfg;
  const bytecode::NaturalLoop& natural = cfg.loops()[static_cast<size_t>(index)];
  const bytecode::Node& header = cfg.nodes()[static_cast<size_t>(natural.header)];
  const Instruction& first = frame_->text->instructions[static_cast<size_t>(header.first)];
  const bool counted = first.op == Op::for_iter_;
  const int exhausted = counted ? header.succs[1] : -1;
  const bool leaves_early =
      std::any_of(natural.exits.begin(), natural.exits.end(), [&](int e) { return e != exhausted; }) ||
      (counted && std::any_of(cfg.nodes()[static_cast<size_t>(exhausted)].preds.begin(),
                              cfg.nodes()[static_cast<size_t>(exhausted)].preds.end(),
                              [&](int p) { return p != natural.header && natural.body[static_cast<size_t>(p)]; }));
  if (first.position.line) {
    line_ = first.position.line;
    builder_.set_loc(graph_->add_loc(frame_->file, line_, std::max(first.position.column, 0), frame_->inlined_at));
  }
  const ir::LocId loc = builder_.loc();
  Traced range;
  if (counted) {
    range = entry.back().traced;
    if (entry.back().kind != Slot::Kind::value || range.kind != Kind::range) abort(AbortId::iterable_);
  }
  const pragma::LoopPragma* pragma = pragma_of(first);
  ir::Loop attributes = loop_attributes(pragma, leaves_early);
  const int collapse = frame_->loop && !pragma ? frame_->loop->collapse - 1 : 1;
  // What collapse(n) says of a loop it says of the n - 1 loops inside.
  const bool collapsed = frame_->loop && frame_->loop->collapse > 1 && counted && !leaves_early;
  if (collapsed) attributes.parallel = attributes.annotated = true;
  const bool reorders = attributes.parallel || attributes.simd;

  LoopContext context;
  context.loop = &natural;
  context.collapse = std::max({attributes.collapse, collapse, 1});
  context.exhausted = exhausted;
  context.many_exits = natural.exits.size() > 1;
  context.carried = stored_slots(natural);
  for (size_t slot : context.carried) {
    entry[slot] = settled(entry[slot], slot);
    context.plan.push_back(merge(entry[slot], entry[slot], true));
  }

  Stops inner(cfg.nodes().size());
  for (size_t n = 0; n < inner.size(); ++n) inner[n] = !natural.body[n];
  LoopContext* const around = std::exchange(frame_->loop, &context);
  if (reorders && reordered_++ == 0) {
    reordered_state_.clear();
    for (size_t slot : stored_) reordered_state_.push_back(entry[slot]);
  }

  const size_t depth = entry.size();
  ir::Block* outer = builder_.block();
  ir::Op* op = nullptr;
  for (int attempt = 0;; ++attempt) {
    if (attempt == max_attempts) abort(AbortId::unstable_types_, "loop-carried variables");
    ir::Op* mark = outer->last;
    const size_t remarks = graph_->remarks.size();
    builder_.set_loc(loc);
    std::vector<ir::Value*> inits;
    slots_ = entry;
    context.before = entry;
    for (size_t k = 0; k < context.carried.size(); ++k) {
      const size_t slot = context.carried[k];
      if (slot < entry.size()) entry[slot] = settled(entry[slot], slot);
      append_words(*this, context.plan[k], slot < entry.size() ? entry[slot] : Slot{}, inits);
    }
    if (context.many_exits) inits.push_back(builder_.i64(exhausted));
    op = counted
             ? builder_.for_loop(range.items[0].value, range.items[1].value, range.items[2].value, inits, attributes)
             : builder_.while_loop(inits);
    ir::Block* body = op->blocks[0];
    std::span<ir::Value* const> args = body->args;
    if (counted) args = args.subspan(1);
    builder_.set_block(body);
    context.entry = entry;
    context.next = context.plan;
    context.more.clear();
    context.more_plan.clear();
    context.widened = false;
    context.exits.clear();
    for (size_t k = 0; k < context.carried.size(); ++k) {
      if (context.carried[k] >= context.entry.size()) context.entry.resize(context.carried[k] + 1);
      context.entry[context.carried[k]] = rebuild(*this, context.plan[k], args);
    }
    slots_ = context.entry;
    slots_.resize(entry.size());
    snapshot(builder_.poll({}));
    Outcome o;
    if (counted) {
      push(scalar(runtime::ScalarKind::py_int, body->args[0]));
      o = execute(header.succs[0], std::move(slots_), inner);
    } else {
      o = execute(natural.header, std::move(slots_), inner, true);
    }
    close_body(context, std::move(o));
    builder_.set_block(outer);
    if (!context.widened) break;
    remove_after(*outer, mark);
    graph_->remarks.resize(remarks);
    context.plan = context.next;
    for (size_t m = 0; m < context.more.size(); ++m) {
      const auto at = std::lower_bound(context.carried.begin(), context.carried.end(), context.more[m]);
      const auto k = at - context.carried.begin();
      context.carried.insert(at, context.more[m]);
      context.plan.insert(context.plan.begin() + k, context.more_plan[m]);
    }
  }
  frame_->loop = around;
  if (reorders) --reordered_;
  builder_.set_loc(loc);
  if (pragma) review_clauses(*pragma, context, *op);

  Outcome out;
  out.slots = std::move(entry);
  std::span<ir::Value* const> results = op->results;
  for (size_t k = 0; k < context.carried.size(); ++k) {
    if (context.carried[k] >= out.slots.size()) out.slots.resize(context.carried[k] + 1);
    out.slots[context.carried[k]] = rebuild(*this, context.plan[k], results);
  }
  out.targets = context.exits;
  if (counted) {
    const bool known = std::any_of(out.targets.begin(), out.targets.end(),
                                   [&](const Outcome::Target& t) { return t.node == exhausted; });
    if (!known) out.targets.push_back({exhausted, depth - 1});  // the iterator is gone
  }
  std::sort(out.targets.begin(), out.targets.end(), [&](const auto& s, const auto& t) {
    return cfg.nodes()[static_cast<size_t>(s.node)].order < cfg.nodes()[static_cast<size_t>(t.node)].order;
  });
  if (out.targets.size() == 2) {
    out.selector = builder_.op(ir::Opcode::eq_, {results.front(), builder_.i64(out.targets[0].node)});
  } else if (out.targets.size() > 2) {
    out.selector = results.front();
  }
  return resolve(std::move(out), stops);
}

}  // namespace appy::trace
