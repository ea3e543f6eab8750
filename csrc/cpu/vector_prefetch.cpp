// Loops with several sums compute long enough for memory to bring what they, or the code behind them, load next.
#include <algorithm>
#include <bit>

#include "cpu/vector_loop.h"

namespace appy::cpu {

using ir::Opcode;

namespace {

constexpr size_t kSumsToPrefetch = 4;  // so many take longer than memory
constexpr size_t kMostInTurn = 12;     // more rows of sums than registers hold
constexpr int kRowsAhead = 8;          // an index that the loop has anyway says where they are

/// Rows that are read at the same time, each for a sum of its own. What is asked for is past what the processor itself
/// runs ahead, and in the page to come before what fetches ahead gets there. Behind the end of a row lies the next one.
/// On two cores of a Xeon four rows of two matrices, a line of each in turn, come with 35 to 36 GB/s from there, and
/// with 33 to 34 where it is 512 bytes, or two lines in turn.
constexpr size_t kFewestStreams = 4;
constexpr int kBytesAhead = 2304;

/// A panel whose rows follow each other comes from the second cache. Two cores of a Xeon, 350 x 350 by 350 x 550: 0.95
/// ms instead of 0.99; 2500 x 3000 x 2750: 247 and 252.
constexpr int kBytesAheadInPanel = 2048;

bool takes_long(const ir::Op& loop) { return loop.code == Opcode::for_ && loop.results.size() >= kSumsToPrefetch; }

/// Loads and arithmetic, one after the other: code that may be there twice.
bool computes_only(const ir::Block& body) {
  for (const ir::Op* op = body.first; op; op = op->next) {
    const bool other = op->code == Opcode::load_ || op->code == Opcode::poll_ || op->code == Opcode::yield_;
    if (!other && !ir::is_pure(op->code)) return false;
  }
  return true;
}

}  // namespace

void VectorLoop::ask_for_lines(x86::Mem first, int bytes) {
  first.setSize(0);
  for (int line = 0; line < bytes; line += kCacheLine) cc_.prefetcht0(first.cloneAdjusted(line));
}

void VectorLoop::prefetch_rows(const ir::Op& op, const Place& p) {
  x86::Mem ahead = rows_ahead(op, p.base);
  if (!ahead.hasBase()) ahead = panel_ahead(op, p.base);
  if (ahead.hasBase()) ask_for_lines(ahead, unroll_ * bytes(op.result()->type.dtype));
}

bool VectorLoop::is_stream(const ir::Op& op) {
  if (op.code != Opcode::load_ || f_.module().uses[op.result()->id] != 1) return false;
  const Form form = address_form(op);
  if (form.view->op && form.view->op->code == Opcode::alloc_) return false;
  bool along = false;
  for (const auto& [term, stride] : form.terms) {
    if (varying(term) && term != d_.linear()) return false;
    along |= term == d_.linear() && stride.constant() && stride.known == ir::size_of(form.view->type.dtype);
  }
  return along;
}

bool VectorLoop::sums_streams() {
  if (loop_.results.size() < kFewestStreams) return false;
  size_t streams = 0;
  for (const ir::Op* op = loop_.blocks[0]->first; op; op = op->next) streams += is_stream(*op);
  return streams == loop_.results.size();
}

void VectorLoop::prefetch_stream(const ir::Op& op, const Place& p) {
  if (!f_.module().traits.asks_for_streams || !sums_streams_ || !exec_.all || op.parent != loop_.blocks[0] ||
      !is_stream(op))
    return;
  ask_for_lines(p.base.cloneAdjusted(kBytesAhead), unroll_ * bytes(op.result()->type.dtype));
}

void VectorLoop::prefetch_elements(const ir::Op& op, const x86::Mem& at) {
  const Form form = address_form(op);
  int64_t last = form.offset.known;
  bool behind = false;
  for (const ir::Op* other = op.parent->first; other; other = other->next) {
    behind |= other == &op;
    if (other == &op || other->code != Opcode::load_) continue;
    const Form its = address_form(*other);
    if (!same_form(form, its)) continue;
    if (!behind) return;  // that one has asked for all of them
    last = std::max(last, its.offset.known);
  }
  // Where neighbours of these elements were computed with before, the line of the last one is new.
  const x86::Mem ahead = rows_ahead(op, at);
  if (ahead.hasBase()) cc_.prefetcht0(ahead.cloneAdjusted(last - form.offset.known));
}

x86::Mem VectorLoop::rows_ahead(const ir::Op& op, const x86::Mem& at) {
  const ir::Op* loop = op.parent->owner;
  if (!exec_.all || loop == &loop_ || !takes_long(*loop)) return {};
  const Form form = address_form(op);
  if (form.view->op && form.view->op->code == Opcode::alloc_) return {};  // copied a moment ago
  for (const auto& [term, stride] : form.terms) {
    if (term != loop->blocks[0]->args[0] || stride.constant()) continue;
    const x86::Gp row = f_.stride_reg(form.view, stride);
    x86::Mem first = at;
    first.setSize(0);
    if (first.hasIndex()) {
      const x86::Gp place = cc_.newGpq();
      cc_.lea(place, first);
      first = x86::ptr(place);
    }
    first.setIndex(row, std::countr_zero(static_cast<unsigned>(kRowsAhead)));
    return first;
  }
  return {};
}

x86::Mem VectorLoop::panel_ahead(const ir::Op& op, const x86::Mem& at) {
  const ir::Op* loop = op.parent->owner;
  if (!avx512_ || !exec_.all || loop == &loop_ || !takes_long(*loop)) return {};
  const Form form = address_form(op);
  const int row = unroll_ * bytes(op.result()->type.dtype);
  const auto goes_on = [&](const auto& term) {
    return term.first == loop->blocks[0]->args[0] && term.second.constant() && term.second.known == row;
  };
  if (!form.view->op || form.view->op->code != Opcode::alloc_ || std::ranges::none_of(form.terms, goes_on)) return {};
  return at.cloneAdjusted(kBytesAheadInPanel);
}

std::vector<VectorLoop::Behind> VectorLoop::places_behind(const ir::Op& loop) {
  std::vector<Behind> places;
  if (!exec_.all || !takes_long(loop)) return places;
  const auto made_before = [&](const ir::Value& v) {
    for (const ir::Op* op = &loop; op; op = op->next) {
      if (op == v.op) return false;
    }
    return true;
  };
  std::vector<Form> known;
  for (const ir::Op* op = loop.next; op; op = op->next) {
    if (op->code != Opcode::load_ && op->code != Opcode::store_) continue;
    const Form form = address_form(*op);
    const auto same = [&](const Form& f) { return same_form(f, form) && f.offset == form.offset; };
    if (std::ranges::any_of(known, same)) continue;
    const ir::DType type = form.view->type.dtype;
    const int element = ir::size_of(type);
    bool along = false;
    const auto whole_vectors = [&](const auto& term) {
      const bool linear = term.first == d_.linear() && term.second.constant() && term.second.known == element;
      along |= linear;
      return (linear || !varying(term.first)) && made_before(*term.first);
    };
    if (!made_before(*form.view) || !std::ranges::all_of(form.terms, whole_vectors) || !along) continue;
    Place p = place(*op);
    if (p.kind != Place::Kind::contiguous) continue;
    known.push_back(form);
    p.base.setSize(0);
    places.push_back({p.base, unroll_ * bytes(type)});
  }
  return places;
}

bool VectorLoop::asks_in_turn(const ir::Op& loop, std::span<const Behind> places) const {
  const auto as_long = [&](const Behind& p) { return p.bytes == places[0].bytes; };
  return !places.empty() && places.size() <= kMostInTurn && std::ranges::all_of(places, as_long) &&
         computes_only(*loop.blocks[0]);
}

void VectorLoop::ask_for(std::span<const Behind> places) {
  for (const auto& [base, bytes] : places) {
    ask_for_lines(base, bytes);
    // A line more than the vectors have where they begin in the middle of one.
    cc_.prefetcht0(base.cloneAdjusted(bytes - 1));
  }
}

void VectorLoop::ask_in_turn(std::span<const Behind> places, x86::Gp trips, const std::function<void()>& iteration) {
  if (!addresses_.hasBase()) addresses_ = cc_.newStack(8 * kMostInTurn, 8);
  x86::Gp at = cc_.newGpq(), next = cc_.newGpq(), offset = cc_.newGpq(), first = cc_.newGpq();
  const auto count = static_cast<int32_t>(places.size());
  const int32_t bytes = places[0].bytes, lines = 1 + bytes / kCacheLine;
  for (int32_t i = 0; i < count; ++i) {
    cc_.lea(at, places[static_cast<size_t>(i)].base);
    cc_.mov(addresses_.cloneAdjusted(8 * i), at);
  }
  x86::Mem address = addresses_;
  address.setIndex(next, 3);
  // A line of each place, the next line of each: bytes 0, 63, 127 and so on lie on all lines that there may be.
  const auto ask_for_next = [&](asmjit::Label more) {
    cc_.mov(at, address);
    cc_.prefetcht0(x86::ptr(at, offset));
    cc_.inc(next);
    cc_.cmp(next, count);
    cc_.jne(more);
    cc_.xor_(next.r32(), next.r32());
    cc_.cmp(offset, 1);
    cc_.sbb(offset, -kCacheLine);
  };
  // What a short loop has no iterations for comes before it.
  asmjit::Label before = cc_.newLabel(), asked = cc_.newLabel(), head = cc_.newLabel(), compute = cc_.newLabel();
  cc_.mov(first, count * lines);
  cc_.sub(first, trips);
  cc_.xor_(next.r32(), next.r32());
  cc_.xor_(offset.r32(), offset.r32());
  cc_.cmp(first, 0);
  cc_.jle(head);
  cc_.bind(before);
  ask_for_next(asked);
  cc_.bind(asked);
  cc_.dec(first);
  cc_.jnz(before);
  cc_.bind(head);
  ask_for_next(compute);
  cc_.bind(compute);
  iteration();
  cc_.cmp(offset, bytes);
  cc_.jl(head);
}

}  // namespace appy::cpu
