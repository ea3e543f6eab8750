// Several iterations of a distributed loop at once: their loads are in flight together, and what neighbouring rows
// share the compiler computes once.
#include <algorithm>
#include <set>

#include "gpu/expressions.h"
#include "gpu/writer.h"

namespace appy::gpu {

using ir::Combiner;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

/// May operations of one iteration stand before some of the iteration before it? `but` is not looked at.
bool Writer::can_interleave(const Op& loop, const Op* but) const {
  if (keeps_last(loop)) return false;
  bool stores = false, reloads = false;
  const std::function<bool(const ir::Block&)> fits = [&](const ir::Block& block) {
    for (const Op* op = block.first; op; op = op->next) {
      if (op == but) continue;
      switch (op->code) {
        case Opcode::atomic_:
        case Opcode::alloc_:
        case Opcode::check_:
        case Opcode::barrier_:
        case Opcode::for_:
        case Opcode::while_:
        case Opcode::break_:
        case Opcode::continue_:
          return false;
        default:
          reloads |= stores && op->code == Opcode::load_;
          stores |= op->code == Opcode::store_;
          for (const ir::Block* inner : op->blocks) {
            if (!fits(*inner)) return false;
          }
      }
    }
    return true;
  };
  // What is carried may be stored: no load moves over such a store.
  return fits(*loop.blocks[0]) && !(reloads && !loop.results.empty());
}

bool Writer::can_unroll(const Op& loop, const Op* but) const {
  if (options_.shape.unroll <= 1 || !can_interleave(loop, but)) return false;
  bool loads = but != nullptr;
  ir::walk(*loop.blocks[0], [&](const Op& op) { loads |= op.code == Opcode::load_; });
  return loads;
}

bool is_rectangular(const std::vector<const Op*>& nest) {
  const Op& last = *nest.back();
  return std::all_of(last.operands.begin(), last.operands.begin() + 3,
                     [&](const Value* bound) { return ir::defined_outside(*bound, *nest[0]->blocks[0]); });
}

/// May threads take several neighbouring rows of the plane at once?
bool Writer::can_take_rows(const std::vector<const Op*>& nest) const {
  const Op& last = *nest.back();
  return is_rectangular(nest) && can_unroll(*nest[nest.size() - 2], &last) && can_unroll(last, nullptr);
}

/// For the nest and for all others that count alike: barriers are left out between such nests where an element is the
/// same thread's in both.
bool Writer::holds_for_alike(const std::vector<const Op*>& nest,
                             bool (Writer::*holds)(const std::vector<const Op*>&) const) const {
  bool all = (this->*holds)(nest);
  ir::walk(*graph_.body, [&](const Op& op) {
    if (!all || op.code != Opcode::for_ || op.mapping != ir::Mapping::threads) return;
    const std::vector<const Op*> other = nest_of(op);
    if (are_alike(nest, other)) all = (this->*holds)(other);
  });
  return all;
}

/// Operations of a body that need what its loop carries, and its end.
std::set<const Op*> chain_of(const Op& loop) {
  std::set<const Value*> carried;
  for (size_t k = 0; k < loop.results.size(); ++k) carried.insert(loop.blocks[0]->args[k + 1]);
  const std::function<bool(const Op&)> follows = [&](const Op& op) {
    bool found = std::any_of(op.operands.begin(), op.operands.end(), [&](const Value* v) { return carried.count(v); });
    for (const ir::Block* inner : op.blocks) {
      for (const Op* each = inner->first; each; each = each->next) found |= follows(*each);
    }
    return found;
  };
  std::set<const Op*> chain;
  for (const Op* op = loop.blocks[0]->first; op; op = op->next) {
    if (!ir::is_terminator(op->code) && !follows(*op)) continue;
    chain.insert(op);
    carried.insert(op->results.begin(), op->results.end());
  }
  return chain;
}

/// The operations of a body for each of several iterations: those that need no carried value are written for all
/// iterations before the next, the others and the loop's end iteration by iteration. Iterations of a distributed loop
/// are independent but for what they carry. `once` is written for all iterations together.
void Writer::side_by_side(const Op& loop, const Op* once, std::vector<Names::Scope>& copies,
                          const std::function<void(const Op&)>& write) {
  const std::set<const Op*> chain = chain_of(loop);
  for (const Op* op = loop.blocks[0]->first; op; op = op->next) {
    if (op == once) {
      write(*op);
    } else if (in_piece_ > 1 && pieces_.count(op)) {
      pieces(*op, copies);
    } else if (!chain.count(op)) {
      const Op* other = neighbour(*op);
      if (other && (other == once || chain.count(other))) other = nullptr;
      for (Names::Scope& copy : copies) {
        names_.enter(&copy);
        other ? pair(*op, *other) : write(*op);
      }
      names_.enter(nullptr);
      if (other) op = other;
    }
  }
  for (Names::Scope& copy : copies) {
    names_.enter(&copy);
    for (const Op* op = loop.blocks[0]->first; op; op = op->next) {
      if (chain.count(op)) write(*op);
    }
  }
  names_.enter(nullptr);
}

/// The loop's variable in `count` iterations from `first` on, `step` behind their number.
std::vector<Names::Scope> Writer::declare_copies(const Op& loop, int count, const std::string& first,
                                                 const std::string& step) {
  std::vector<Names::Scope> copies(static_cast<size_t>(count));
  for (size_t c = 0; c < copies.size(); ++c) {
    names_.enter(&copies[c]);
    declare_variable(loop, c == 0 ? first : "(" + first + " + " + std::to_string(c) + step + ")");
  }
  names_.enter(nullptr);
  return copies;
}

/// One loop over all threads, of so many iterations.
void Writer::along_line(const Op& loop, const std::string& n) {
  const std::string k = names_.fresh("", "k");
  const bool wide = neighbours(loop) > 1;
  if (wide) {
    in_pieces(loop, "team.thread", "team.threads", n, options_.shape.unroll > 1 ? 2 : 1, true);
    open("else");
  }
  put("i64 " + k + " = team.thread;");
  if (can_unroll(loop, nullptr)) {
    open(not_unrolled(true) + "for (; " + k + " < " + n + " - (kUnroll - 1) * team.threads; " + k +
         " += kUnroll * team.threads)");
    loops_.push_back(&loop);
    std::vector<Names::Scope> copies = declare_copies(loop, options_.shape.unroll, k, " * team.threads");
    side_by_side(loop, nullptr, copies, [&](const Op& op) { statement(op); });
    loops_.pop_back();
    close();
  }
  // Few iterations are left for it, where others are side by side; and where none are, a thread has few at all.
  const bool few = can_unroll(loop, nullptr) || options_.shape.unroll == 1;
  open(not_unrolled(few) + "for (; " + k + " < " + n + "; " + k + " += team.threads)");
  loops_.push_back(&loop);
  declare_variable(loop, k);
  if (keeps_last(loop)) put(at_ + " = " + k + ";");
  block(*loop.blocks[0]);
  loops_.pop_back();
  close();
  if (wide) close();
}

/// Rows of a plane, `count` neighbours at a time; `across` writes the loop along a row, of so many rows.
void Writer::rows(const Op& loop, const Op& along, int count, const std::string& trips, const std::string& group,
                  const std::function<void(std::vector<Names::Scope>*)>& across) {
  const std::string first = names_.fresh("", "first"), k = names_.fresh("", "k");
  put("const i64 " + first + " = " + group + " * " + std::to_string(count) + ";");
  open("if (" + first + " + " + std::to_string(count) + " <= " + trips + ")");
  std::vector<Names::Scope> copies = declare_copies(loop, count, first, "");
  side_by_side(loop, &along, copies, [&](const Op& op) { &op == &along ? across(&copies) : statement(op); });
  close(" else {");
  ++depth_;
  open(not_unrolled(true) + "for (i64 " + k + " = " + first + "; " + k + " < " + trips + "; ++" + k + ")");
  declare_variable(loop, k);
  body(loop, &along, [&] { across(nullptr); });
  close();
  close();
}

/// A sum that one thread adds up from memory near to it while others wait: in several chains, as each addition waits
/// for the one before for longer than for what it loads.
bool Writer::in_chains(const Op& op) {
  if (!one_block_ || level_ != Level::thread || op.code != Opcode::for_ || op.results.size() != 1) return false;
  const DType t = op.results[0]->type.dtype;
  const Op* step = op.operands[2]->op;
  if (!op.loop->simd || op.loop->carried[0].combiner != Combiner::sum_ || !ir::is_real(t)) return false;
  if (!step || step->code != Opcode::const_ || step->imm != 1) return false;
  for (const Op* at = op.blocks[0]->first; at != op.blocks[0]->last; at = at->next) {
    if (!ir::is_pure(at->code) && at->code != Opcode::load_) return false;
  }
  constexpr int kChains = 4;
  const Value& sum = *op.blocks[0]->args[1];
  const std::string i = names_.of(*op.blocks[0]->args[0]), k = names_.fresh("", "k"), end = argument(*op.operands[1]);
  std::vector<std::string> sums;
  for (int chain = 0; chain < kChains; ++chain) {
    sums.push_back(names_.fresh(sum.name));
    put(std::string(type_of(t)) + " " + sums.back() + " = " +
        (chain == 0 ? argument(*op.operands[3]) : literal(t, ir::neutral(Combiner::sum_, t))) + ";");
  }
  loops_.push_back(&op);
  const auto iteration = [&](int chain) {
    names_.bind(sum, sums[static_cast<size_t>(chain)]);
    open("");
    put("const i64 " + i + " = " + k + " + " + std::to_string(chain) + ";");
    block(*op.blocks[0]);
    close();
  };
  put("i64 " + k + " = " + argument(*op.operands[0]) + ";");
  open("for (; " + end + " - " + k + " >= " + std::to_string(kChains) + "; " + k + " += " + std::to_string(kChains) +
       ")");
  for (int chain = 0; chain < kChains; ++chain) iteration(chain);
  close();
  open(not_unrolled(true) + "for (; " + k + " < " + end + "; ++" + k + ")");
  iteration(0);
  close();
  loops_.pop_back();
  put(sums[0] + " = (" + sums[0] + " + " + sums[1] + ") + (" + sums[2] + " + " + sums[3] + ");");
  names_.bind(*op.results[0], sums[0]);
  return true;
}

}  // namespace appy::gpu
