// Operations as statements.
#include <algorithm>

#include "gpu/expressions.h"
#include "gpu/writer.h"
#include "passes/loops.h"
#include "passes/subscripts.h"
#include "support/check.h"

namespace appy::gpu {

using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

void Writer::note_line(const Op& op) {
  if (!options_.lines || op.loc == 0 || op.loc == noted_) return;
  const ir::Loc &at = graph_.locs[op.loc], &before = graph_.locs[noted_];
  const bool same = noted_ != 0 && at.line == before.line && at.file == before.file;
  noted_ = op.loc;
  if (same) return;
  std::string text = options_.source_line ? options_.source_line(at.file, at.line) : "";
  // A comment ends with its line.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  while (!text.empty() && (text.back() == '\\' || text.back() == ' ')) text.pop_back();
  text.erase(0, text.find_first_not_of(' '));
  put("// " + std::to_string(at.line) + (text.empty() ? "" : ": " + text));
  body_ += "#line " + std::to_string(at.line) + " \"";
  for (char c : at.file) body_ += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  body_ += "\"\n";
}

std::string Writer::argument(const Value& v) {
  if (v.op && v.op->code == Opcode::const_) return literal(v.type.dtype, v.op->imm);
  return names_.of(v);
}

std::vector<std::string> Writer::arguments(const Op& op) {
  std::vector<std::string> texts;
  for (const Value* v : op.operands) texts.push_back(argument(*v));
  return texts;
}

void Writer::define(const Value& v, const std::string& expression) {
  put("const " + std::string(type_of(v.type.dtype)) + " " + names_.of(v) + " = " + expression + ";");
}

std::string Writer::extent(const Value& view, size_t d) {
  if (view.op) return argument(*view.op->operands[d]);
  if (view.type.layout == ir::Layout::pairs && d + 1 == static_cast<size_t>(view.type.rank)) return "2ll";
  return names_.of(view) + "_n" + std::to_string(d);
}

/// The type in which a subscript is computed. Where it may not wrap, neighbours are one address and an offset to the
/// compiler: in shared memory, and along the innermost loop, which then needs no index at all.
std::string Writer::index_type(const Op& access, size_t d) const {
  const Value& view = *access.view();
  const bool shared = view.op && options_.shape.in_shared(code_.arrays[array_of_.at(view.op)].owner);
  return (shared && view.type.rank == 1) || walks_along(access, d) ? "i64" : "Index";
}

/// Does the innermost loop around the access, of one thread or one lane, go along this dimension and no other one,
/// whose elements are neighbours?
bool Writer::walks_along(const Op& access, size_t d) const {
  const Value& view = *access.view();
  const auto rank = static_cast<size_t>(view.type.rank);
  const ir::Layout layout = view.type.layout;
  const size_t unit = layout == ir::Layout::f ? 0 : rank - 1;
  if (d != unit || layout == ir::Layout::strided || loops_.empty()) return false;
  const Op& loop = *loops_.back();
  if (loop.code != Opcode::for_ || (loop.mapping != ir::Mapping::none && loop.mapping != ir::Mapping::lanes))
    return false;
  bool along = false;
  for (size_t k = 0; k < static_cast<size_t>(access.access->terms); ++k) {
    if (access.operands[access.first_term() + k] != passes::induction(loop)) continue;
    for (size_t n = 0; n < rank; ++n) {
      if (access.access->coef[n][k] == 0) continue;
      if (n != unit) return false;
      along = true;
    }
  }
  return along;
}

std::string Writer::subscript(const Op& access, size_t d) {
  const ir::Access& a = *access.access;
  const std::string type = index_type(access, d);
  std::string text;
  for (size_t k = 0; k < static_cast<size_t>(a.terms); ++k) {
    const int64_t coef = a.coef[d][k];
    if (coef == 0) continue;
    const std::string term = "(" + type + ")" + argument(*access.operands[access.first_term() + k]);
    if (!text.empty()) text += " + ";
    text += coef == 1 ? term : "(" + type + ")" + literal(DType::i64_, static_cast<ir::Word>(coef)) + " * " + term;
  }
  if (a.offset[d] != 0 || text.empty()) {
    text += (text.empty() ? "(" : " + (") + type + ")" + literal(DType::i64_, static_cast<ir::Word>(a.offset[d]));
  }
  return text;
}

/// The element of an access, as an lvalue.
std::string Writer::element(const Op& access) {
  const Value& view = *access.view();
  const auto rank = static_cast<size_t>(view.type.rank);
  const ir::Layout layout = view.type.layout;
  if (rank == 0) return "*" + names_.of(view);
  if (layout == ir::Layout::strided || layout == ir::Layout::inner) {
    std::string bytes;
    for (size_t d = 0; d < rank; ++d) {
      const bool unit = layout == ir::Layout::inner && d + 1 == rank;
      bytes += (d ? " + " : "") + ("(" + subscript(access, d)) + ") * (" + index_type(access, d) + ")" +
               (unit ? std::to_string(ir::size_of(view.type.dtype)) : names_.of(view) + "_s" + std::to_string(d));
    }
    const bool read_only = !view.op && !written_.count(&view) && !graph_.may_alias;
    return "*(" + std::string(read_only ? "const " : "") + memory_type_of(view.type.dtype) + "*)((" +
           (read_only ? "const " : "") + "char*)" + names_.of(view) + " + " + bytes + ")";
  }
  // Horner's rule, from the dimension that varies slowest.
  std::string index;
  for (size_t k = 0; k < rank; ++k) {
    const size_t d = layout == ir::Layout::f ? rank - 1 - k : k;
    const std::string sub = subscript(access, d);
    index = k == 0 ? sub : "(" + index + ") * (Index)" + extent(view, d) + " + " + sub;
  }
  return names_.of(view) + "[" + index + "]";
}

bool Writer::open_elected() {
  if (level_ == Level::thread) return false;
  open("if (" +
       (level_ == Level::all ? "team.thread == 0"
        : columns_           ? elected_
                             : std::string("team.lane == 0")) +
       ")");
  return true;
}

bool Writer::is_unaligned(const Value& view) const {
  return !view.op && view.index < options_.unaligned.size() && options_.unaligned[view.index];
}

std::string Writer::loaded(const Op& load) {
  const std::string text = is_unaligned(*load.view()) ? "read_bytes(&" + element(load) + ")" : element(load);
  return text + (load.result()->type.dtype == DType::bool_ ? " != 0" : "");
}

/// The load of the element that a store often leaves as it is: its value is chosen among others and that one, and
/// nothing is written between.
const Op* Writer::stays(const Op& store) const {
  const Op* choice = store.operands[0]->op;
  if (!choice || choice->parent != store.parent) return nullptr;
  const bool chooses = choice->code == Opcode::select_ || choice->code == Opcode::pymin_ ||
                       choice->code == Opcode::pymax_ || choice->code == Opcode::minimum_ ||
                       choice->code == Opcode::maximum_;
  if (!chooses) return nullptr;
  for (const ir::Value* v : choice->operands) {
    const Op* load = v->op;
    if (!load || load->code != Opcode::load_ || load->parent != store.parent || !passes::same_element(*load, store)) {
      continue;
    }
    const Op* between = load->next;
    while (between != &store && !passes::writes(*between)) between = between->next;
    if (between == &store) return load;
  }
  return nullptr;
}

bool Writer::is_in_shared(const Value& view) const {
  const Op* alloc = ir::alloc_of(view);
  return alloc && options_.shape.in_shared(code_.arrays[array_of_.at(alloc)].owner);
}

/// What is loaded is stored to shared memory next, and nobody else needs it.
bool Writer::is_copy(const Op& load) const {
  const Op* store = load.next;
  if (load.code != Opcode::load_ || store->code != Opcode::store_ || store->operands[0] != load.result()) return false;
  const DType t = load.result()->type.dtype;
  if (t == DType::bool_ || ir::size_of(t) < 4 || is_unaligned(*load.view())) return false;
  for (const Op* op = store->next; op; op = op->next) {
    const auto& used = op->operands;
    if (!op->blocks.empty() || std::find(used.begin(), used.end(), load.result()) != used.end()) return false;
  }
  return is_in_shared(*store->view()) && !is_in_shared(*load.view());
}

bool Writer::only_copies(const Op& loop) const {
  if (!loop.results.empty()) return false;
  bool any = false;
  for (const Op* op = loop.blocks[0]->first; op; op = op->next) {
    if (is_copy(*op)) {
      any = true;
      op = op->next;
    } else if (!ir::is_pure(op->code) && op->code != Opcode::yield_) {
      return false;
    }
  }
  return any;
}

/// What is loaded lies in shared memory and is stored as it is.
bool Writer::copies_back(const Op& loop) const {
  const Op* load = loop.blocks[0]->first;
  while (ir::is_pure(load->code)) load = load->next;
  const Op* store = load->next;
  return load->code == Opcode::load_ && is_in_shared(*load->view()) && store->code == Opcode::store_ &&
         store->operands[0] == load->result() && store->next->code == Opcode::yield_;
}

/// Loops that begin copies may follow each other; whatever else comes needs them done.
void Writer::await_copies_before(const Op& op) {
  if (!ahead_ || level_ == Level::thread) return;
  if (ir::is_pure(op.code) || op.code == Opcode::alloc_) return;
  if (op.code == Opcode::for_ && op.mapping == ir::Mapping::lanes && only_copies(op)) return;
  put("appy_await_copies();");
  ahead_ = false;
}

void Writer::store(const Op& op) {
  if (copies_) {
    put("copy_ahead(&" + element(op) + ", &" + element(*op.prev) + ");");
    ahead_ = true;
    return;
  }
  const bool elected = open_elected();
  const std::string value = argument(*op.operands[0]);
  const Op* old = level_ == Level::thread && !apart_ ? stays(op) : nullptr;
  // Memory that is not written need not be read back from the cache either.
  if (old) open("if (word_of(" + value + ") != word_of(" + argument(*old->result()) + "))");
  put(is_unaligned(*op.view()) ? "write_bytes(&" + element(op) + ", " + value + ");"
                               : element(op) + " = " + value + ";");
  if (old) close();
  if (elected) close();
}

void Writer::atomic(const Op& op) {
  const DType t = op.view()->type.dtype;
  const ir::Combiner c = op.combiner;
  const bool wide = ir::is_int(t) && ir::size_of(t) >= 4;
  const bool native =
      (c == ir::Combiner::sum_ && (wide || t == DType::f32_ || t == DType::f64_)) || (wide && c != ir::Combiner::prod_);
  code_.updates = true;
  const bool elected = open_elected();
  const std::string value = argument(*op.operands[0]), at = "&" + element(op);
  if (native) {
    put("atomic_" + std::string(ir::name_of(c)) + "((" + std::string(type_of(t)) + "*)" + at + ", " + value + ");");
  } else {
    const std::string type = t == DType::bool_ ? "u8" : type_of(t);
    const Opcode code = ir::opcode_of(c);
    std::string update;
    if (ir::is_half(t)) {
      update = cast(t, DType::f32_,
                    expression(code, DType::f32_, {cast(DType::f32_, t, "old"), cast(DType::f32_, t, value)}));
    } else if (t == DType::bool_) {
      update = "(u8)(" + expression(code, t, {"(old != 0)", value}) + ")";
    } else {
      update = expression(code, t, {"old", value});
    }
    put("update_by_exchange((" + type + "*)" + at + ", [&](" + type + " old) -> " + type + " { return " + update +
        "; });");
  }
  if (elected) close();
}

void Writer::check(const Op& op) {
  const auto ninfo = static_cast<size_t>(op.check->ninfo);
  open("if (!" + argument(*op.operands[0]) + ")");
  const bool elected = open_elected();
  std::string words;
  for (size_t k = 0; k < ninfo; ++k) {
    const Value& v = *op.operands[1 + k];
    words += (k ? ", " : "") + ("(i64)" + (ir::is_real(v.type.dtype) ? "word_of(" + argument(v) + ")" : argument(v)));
  }
  std::string iteration = "-1";
  if (outermost_) iteration = names_.of(*outermost_->blocks[0]->args[0]);
  if (ninfo) put("const i64 info[] = {" + words + "};");
  const size_t nstate = op.operands.size() - ir::first_state(op);
  std::string state;
  for (size_t k = 0; k < nstate; ++k) {
    state += (k ? ", word_of(" : "word_of(") + argument(*op.operands[ir::first_state(op) + k]) + ")";
  }
  if (nstate) put("const u64 state[] = {" + state + "};");
  put("fault(team, control, " + std::to_string(ordinals_.at(&op)) + ", " + iteration + ", " + std::to_string(ninfo) +
      ", " + (ninfo ? "info" : "nullptr") +
      (nstate ? ", " + std::to_string(nstate) + ", state, control.results + " + std::to_string(result_words()) : "") +
      ");");
  if (elected) close();
  if (level_ == Level::all) {
    put("return;");
  } else {
    put(dead_ + " = true;");
    if (!loops_.empty()) put("break;");
  }
  close();
}

void Writer::alloc(const Op& op) {
  const size_t number = array_of_.at(&op);
  const ArrayUse& use = code_.arrays[number];
  const DType t = op.result()->type.dtype;
  const std::string type = memory_type_of(t), name = names_.of(*op.result());
  const std::string word = "p.w[" + std::to_string(code_.words - 2 * code_.arrays.size() + number) + "]";
  const bool shared = options_.shape.in_shared(use.owner);
  std::string place = shared ? "(" + type + "*)(appy_shared() + " + word + ")" : "(" + type + "*)" + word;
  // In shared memory a block that is one worker has one.
  const bool only = shared && options_.shape.lanes == options_.shape.block;
  const bool several = use.owner == ArrayUse::Owner::worker || use.owner == ArrayUse::Owner::thread;
  if (several && !only) {
    // Each has as much room, whatever its own array takes.
    const std::string room = "(i64)p.w[" + std::to_string(code_.words - code_.arrays.size() + number) + "]";
    const std::string mine = shared                                 ? "threadIdx.x / kLanes"
                             : use.owner == ArrayUse::Owner::worker ? "team.worker"
                                                                    : "team.thread";
    place = place + " + " + mine + " * " + room;
  }
  put(type + "* const " + name + " = " + place + ";");
}

void Writer::condition(const Op& op) {
  for (const Value* r : op.results) put(std::string(type_of(r->type.dtype)) + " " + names_.of(*r) + ";");
  const auto version = std::find(options_.versions.begin(), options_.versions.end(), &op);
  is_version_ |= version != options_.versions.end();
  if (const uint32_t taken = version == options_.versions.end()
                                 ? 0
                                 : options_.shape.taken >> (2 * (version - options_.versions.begin())) & 3) {
    open("");
    block(*op.blocks[taken - 1]);
    is_version_ = false;
    return close();
  }
  open("if (" + argument(*op.operands[0]) + ")");
  block(*op.blocks[0]);
  const Op& other = *op.blocks[1]->first;
  if (other.code != Opcode::yield_ || !other.operands.empty()) {
    --depth_;
    open("} else");
    block(*op.blocks[1]);
  }
  close();
  if (version != options_.versions.end()) is_version_ = false;
}

void Writer::terminator(const Op& op) {
  const bool leaves = op.code != Opcode::yield_;
  const Op& owner = leaves ? *loops_.back() : *op.parent->owner;
  std::vector<std::string> targets;
  if (owner.code == Opcode::if_) {
    for (const Value* r : owner.results) targets.push_back(names_.of(*r));
  } else {
    const size_t first = owner.code == Opcode::for_ ? 1 : 0;
    for (size_t k = first; k < owner.blocks[0]->args.size(); ++k)
      targets.push_back(names_.of(*owner.blocks[0]->args[k]));
  }
  std::vector<std::string> values = arguments(op);
  // All are read before the first is written.
  for (size_t k = 1; k < values.size(); ++k) {
    for (size_t earlier = 0; earlier < k; ++earlier) {
      if (values[k] != targets[earlier] || values[earlier] == targets[earlier]) continue;
      const std::string copy = names_.fresh("", "old");
      put("const auto " + copy + " = " + values[k] + ";");
      values[k] = copy;
      break;
    }
  }
  for (size_t k = 0; k < values.size(); ++k) {
    if (values[k] != targets[k]) put(targets[k] + " = " + values[k] + ";");
  }
  if (op.code == Opcode::break_) put("break;");
  if (op.code == Opcode::continue_) put("continue;");
}

void Writer::block(const ir::Block& b) {
  for (const Op* op = b.first; op; op = op->next) {
    if (const Op* other = neighbour(*op)) {
      pair(*op, *other);
      op = other;
    } else {
      statement(*op);
    }
  }
}

void Writer::statement(const Op& op) {
  await_copies_before(op);
  if (op.code != Opcode::const_ && !ir::is_terminator(op.code)) note_line(op);
  switch (op.code) {
    case Opcode::const_:
    case Opcode::poll_:
      return;
    case Opcode::dim_:
      return define(*op.result(), extent(*op.operands[0], static_cast<size_t>(op.dim)));
    case Opcode::load_:
      if (copies_) return;
      return load(op);
    case Opcode::store_:
      return store(op);
    case Opcode::atomic_:
      return atomic(op);
    case Opcode::alloc_:
      return alloc(op);
    case Opcode::check_:
      return check(op);
    case Opcode::barrier_:
      if (op.mapping == ir::Mapping::lanes) {
        return put(columns_ ? "barrier_block();" : "barrier_lanes<kLanes>();");
      }
      code_.meets = true;
      put((op.mapping == ir::Mapping::repeated ? "barrier_repeated" : "barrier_workers") +
          std::string(loops_.empty() ? "" : "<true>") + "(team, control);");
      leave_if_told();
      if (code_.checks) put("if (failed(team, control)) return;");
      return;
    case Opcode::for_:
    case Opcode::while_:
      return loop(op);
    case Opcode::if_:
      return condition(op);
    case Opcode::yield_:
    case Opcode::continue_:
    case Opcode::break_:
      return terminator(op);
    default:
      if (op.code == Opcode::div_ && divisors_.count(op.operands[1])) {
        return define(*op.result(), "divided(" + argument(*op.operands[0]) + ", " + divisors_.at(op.operands[1]) + ")");
      }
      return define(*op.result(), expression(op, arguments(op)));
  }
}

/// In front of a loop: what it divides by in each iteration. Returns what is to be forgotten behind it.
std::vector<const Value*> Writer::declare_divisors(const Op& loop) {
  std::vector<const Value*> made;
  ir::walk(*loop.blocks[0], [&](const Op& op) {
    if (op.code != Opcode::div_ || !ir::is_real(op.result()->type.dtype)) return;
    const Value* by = op.operands[1];
    if (divisors_.count(by) || !ir::defined_outside(*by, *loop.blocks[0]) ||
        (by->op && by->op->code == Opcode::const_)) {
      return;
    }
    const std::string name = names_.fresh("", "by");
    put("const auto " + name + " = divisor_of(" + argument(*by) + ");");
    divisors_.emplace(by, name);
    made.push_back(by);
  });
  return made;
}

}  // namespace appy::gpu
