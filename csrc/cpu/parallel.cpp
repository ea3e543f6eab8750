// `for parallel`: the loop's body becomes a function over a chunk of the iterations, which the team runs.
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "cpu/cost.h"
#include "cpu/function.h"
#include "cpu/privatise.h"
#include "cpu/vector_loop.h"
#include "passes/regular.h"

namespace appy::cpu {

using ir::Combiner;
using ir::DType;
using ir::Opcode;

namespace {

constexpr int kRowAlign = 8;  // words of a cache line

std::vector<DType> types_of(const ir::Op& loop) {
  std::vector<DType> types;
  for (const ir::Value* v : loop.results) types.push_back(v->type.dtype);
  return types;
}

Dealing dealing_of(const ir::Op& loop) {
  const ir::Loop& l = *loop.loop;
  if (l.schedule != ir::Schedule::automatic) {
    return l.schedule == ir::Schedule::dynamic ? Dealing::in_turn : Dealing::shares;
  }
  const passes::Iterations iterations = passes::compare_iterations(loop);
  if (iterations == passes::Iterations::unlike) return Dealing::in_turn;
  // Those are blocks and tiles. A part of a loop in lanes may be no multiple of a vector.
  return iterations == passes::Iterations::alike && !l.simd ? Dealing::stretches : Dealing::shares;
}

/// The views that workers may have private copies of; empty where an atomic's target is not one of them.
std::vector<AtomicTarget> atomic_targets(const Module& m, const ir::Op& loop) {
  std::vector<AtomicTarget> found;
  bool all = !m.graph.may_alias;
  ir::walk(*loop.blocks[0], [&](ir::Op& op) {
    if (op.code != Opcode::atomic_ || !ir::defined_outside(*op.view(), *loop.blocks[0])) return;
    const ir::Type t = op.view()->type;
    const auto word = static_cast<uint32_t>(m.param_word[op.view()->id]);
    all &= (t.rank == 1 || t.rank == 2) && can_privatise(t.dtype, op.combiner);
    for (const AtomicTarget& other : found) {
      if (other.word != word) continue;
      all &= other.combiner == op.combiner;
      return;
    }
    found.push_back({word, t.rank, t.dtype, op.combiner, t.layout});
  });
  ir::walk(*loop.blocks[0], [&](ir::Op& op) {
    if (!op.access || op.code == Opcode::atomic_) return;
    for (const AtomicTarget& t : found) all &= t.word != static_cast<uint32_t>(m.param_word[op.view()->id]);
  });
  if (!all || found.size() > static_cast<size_t>(kMaxTargets)) found.clear();
  return found;
}

bool has_poll(const ir::Op& loop) {
  bool found = false;
  ir::walk(*loop.blocks[0], [&](const ir::Op& op) { found |= op.code == Opcode::poll_; });
  return found;
}

/// Iterations that a chunk is best a multiple of: several lines of the cache, where each iteration is next to nothing.
int64_t multiple_of(Function& f, const ir::Op& loop) {
  constexpr int64_t line = 16, lines = 64;
  if (!loop.loop->simd) return 1;
  bool inner = false;
  ir::walk(*loop.blocks[0], [&](const ir::Op& op) { inner |= op.code == Opcode::for_; });
  if (!inner || !VectorLoop::supports(f, loop)) return lines;
  // With loops inside a group more or less is what one worker waits for.
  return std::clamp<int64_t>(VectorLoop(f, loop).group(), line, lines);
}

}  // namespace

bool has_atomics(const ir::Op& loop) {
  bool found = false;
  ir::walk(*loop.blocks[0], [&](ir::Op& op) { found |= op.code == Opcode::atomic_; });
  return found;
}

bool Function::can_outline(const ir::Op& loop) const {
  if (!ir::can_reorder(loop)) return false;
  for (size_t i = 0; i < loop.results.size(); ++i) {
    const Combiner c = loop.loop->carried[i].combiner;
    if (m_.graph.exact && is_float(loop.results[i]->type.dtype) && (c == Combiner::sum_ || c == Combiner::prod_)) {
      return false;
    }
  }
  bool keep = false;
  ir::walk(*loop.blocks[0], [&](ir::Op& op) {
    keep |= op.code == Opcode::break_ && ir::enclosing_loop(*op.parent) == &loop;
    keep |= op.code == Opcode::atomic_ && m_.graph.exact && is_float(op.operands[0]->type.dtype);
  });
  return !keep;
}

void Function::parallel_loop(const ir::Op& loop, const Bounds& bounds, std::span<const x86::Reg> carried) {
  const ir::Block& body = *loop.blocks[0];
  Outlined outlined;
  outlined.loop = &loop;
  std::unordered_set<const ir::Value*> seen;
  ir::walk(*loop.blocks[0], [&](ir::Op& op) {
    for (const ir::Value* v : op.operands) {
      if (is_const(v) || m_.param_word[v->id] >= 0 || !ir::defined_outside(*v, body)) continue;
      if (seen.insert(v).second) outlined.captured.push_back(v);
    }
  });
  // How much a stream writes follows from the bounds of this loop and those around it, too.
  const auto capture_bounds = [&](const ir::Op& simd_loop) {
    for (const ir::Op* around : find_stream(m_.graph, m_.accesses, simd_loop).loops) {
      for (const ir::Value* v : {around->operands[0], around->operands[1]}) {
        if (is_const(v) || m_.param_word[v->id] >= 0 || !ir::defined_outside(*v, body)) continue;
        if (seen.insert(v).second) outlined.captured.push_back(v);
      }
    }
  };
  if (loop.loop->simd) capture_bounds(loop);
  ir::walk(*loop.blocks[0], [&](ir::Op& op) {
    if (op.code == Opcode::for_ && op.loop->simd) capture_bounds(op);
  });
  const auto signature = asmjit::FuncSignatureT<int64_t, void*, void*, int64_t, int64_t, int64_t>();
  cc_.newFuncNode(&outlined.node, signature);
  Outlined alone = outlined;
  alone.alone = true;
  if (has_atomics(loop)) cc_.newFuncNode(&alone.node, signature);
  const size_t words = kFirstCaptured + outlined.captured.size() + carried.size();
  x86::Mem closure = cc_.newStack(static_cast<uint32_t>(8 * words), 8);
  x86::Mem loop_data = cc_.newStack(sizeof(ParallelLoop), 8);
  asmjit::Label done = cc_.newLabel();
  cc_.test(bounds.trips, bounds.trips);
  cc_.jz(done);
  auto put = [&](x86::Mem base, size_t offset, x86::Gp word) {
    base.addOffset(static_cast<int64_t>(offset));
    base.setSize(8);
    cc_.mov(base, word);
  };
  auto put_value = [&](size_t index, DType t, x86::Reg r) {
    x86::Gp word = cc_.newGpq();
    if (t == DType::f64_) {
      cc_.vpextrq(word, r.as<x86::Xmm>(), 0);  // see exits.cpp
    } else if (t == DType::f32_) {
      cc_.vpextrd(word.r32(), r.as<x86::Xmm>(), 0);
    } else {
      cc_.mov(word, r.as<x86::Gp>());
    }
    put(closure, 8 * index, word);
  };
  put(closure, 8 * kLower, bounds.lower);
  if (!bounds.step_known) put(closure, 8 * kStep, bounds.step_reg);
  size_t at = kFirstCaptured;
  for (const ir::Value* v : outlined.captured) {
    const x86::Reg r = reg(v);
    hoist_from(depth_of(v), [&] { put_value(at, v->type.dtype, r); });
    ++at;
  }
  for (size_t i = 0; i < carried.size(); ++i) put_value(at++, loop.results[i]->type.dtype, carried[i]);
  put(loop_data, offsetof(ParallelLoop, trips), bounds.trips);
  hoist_from(depth_of_cost(*this, loop),
             [&] { put(loop_data, offsetof(ParallelLoop, cost), iteration_cost(*this, loop, bounds)); });
  const ir::Loop& l = *loop.loop;
  const int64_t row = (static_cast<int64_t>(carried.size()) + kRowAlign - 1) / kRowAlign * kRowAlign;
  const Dealing dealing = dealing_of(loop);
  const bool fixed = dealing != Dealing::in_turn && (l.schedule == ir::Schedule::statically || l.chunk > 0);
  const bool pends = pending_loops_.contains(&loop);
  const std::vector<AtomicTarget> targets = atomic_targets(m_, loop);
  std::vector<std::pair<size_t, int64_t>> fields = {
      {offsetof(ParallelLoop, chunk), l.chunk},
      {offsetof(ParallelLoop, threads), l.threads},
      {offsetof(ParallelLoop, dealing), static_cast<int64_t>(dealing)},
      {offsetof(ParallelLoop, fixed), fixed},
      {offsetof(ParallelLoop, align), multiple_of(*this, loop)},
      {offsetof(ParallelLoop, may_pend), pends},
      {offsetof(ParallelLoop, polls), has_poll(loop)},
      {offsetof(ParallelLoop, row_words), row},
      {offsetof(ParallelLoop, closure_words), static_cast<int64_t>(words)},
      {offsetof(ParallelLoop, arg_words), static_cast<int64_t>(m_.words.all)},
      {offsetof(ParallelLoop, targets), static_cast<int64_t>(targets.size())}};
  for (size_t i = 0; i < targets.size(); ++i) {
    fields.emplace_back(offsetof(ParallelLoop, target) + i * sizeof(AtomicTarget), std::bit_cast<int64_t>(targets[i]));
  }
  hoist_from(-1, [&] {
    put(closure, 8 * kArgs, args_);
    const auto put_address = [&](size_t offset, const x86::Mem& of) {
      x86::Gp address = cc_.newGpq();
      cc_.lea(address, of);
      put(loop_data, offset, address);
    };
    put_address(offsetof(ParallelLoop, body), x86::ptr(outlined.node->label()));
    put_address(offsetof(ParallelLoop, alone), x86::ptr(alone.node->label()));
    put_address(offsetof(ParallelLoop, closure), closure);
    const auto put_number = [&](x86::Mem base, size_t offset, int64_t value) {
      x86::Gp word = cc_.newGpq();
      load_imm(word, value);
      put(base, offset, word);
    };
    for (auto [offset, value] : fields) put_number(loop_data, offset, value);
    if (bounds.step_known) put_number(closure, 8 * kStep, bounds.step);
    put_number(closure, 8 * kPartials, 0);  // where there are some, run_parallel says so
  });
  x86::Gp data = cc_.newGpq(), status = cc_.newGpq();
  cc_.lea(data, loop_data);
  const x86::Reg arguments[] = {context_, data};
  call(reinterpret_cast<const void*>(&run_parallel), status, arguments);
  const State state = state_before(loop);
  cc_.test(status, status);
  cc_.jnz(cold([this, state, status] { leave_interrupted(state, status); }));
  if (pends) tell_of_pending(state);
  if (!carried.empty()) {
    x86::Gp partials = cc_.newGpq(), chunks = cc_.newGpq();
    auto field = [&](size_t offset) {
      x86::Mem m = loop_data;
      m.addOffset(static_cast<int64_t>(offset));
      m.setSize(8);
      return m;
    };
    cc_.mov(partials, field(offsetof(ParallelLoop, partials)));
    cc_.mov(chunks, field(offsetof(ParallelLoop, chunks)));
    asmjit::Label again = cc_.newLabel();
    const std::vector<DType> types = types_of(loop);
    std::vector<x86::Reg> partial;
    for (DType t : types) partial.push_back(new_reg(t));
    cc_.bind(again);
    for (size_t i = 0; i < types.size(); ++i)
      load_scalar(types[i], partial[i], x86::ptr(partials, static_cast<int32_t>(8 * i)));
    combine(l, types, carried, partial);
    cc_.add(partials, static_cast<int32_t>(8 * row));
    cc_.dec(chunks);
    cc_.jnz(again);
  }
  cc_.bind(done);
  m_.summary.push_back(m_.where(loop) + ": threads, " + (dealing == Dealing::in_turn ? "dynamic" : "static") +
                       " schedule" + (pends ? ", overlaps with the next one" : ""));
  if (alone.node != outlined.node) m_.outlined.push_back(std::move(alone));
  m_.outlined.push_back(std::move(outlined));
}

void Function::emit_outlined(const Outlined& outlined) {
  const size_t lines = m_.summary.size();
  begin(outlined.node, 1 + loops_within(*outlined.loop->blocks[0]));
  alone_ = outlined.alone;
  root_ = outlined.loop;
  const ir::Op& loop = *root_;
  x86::Gp closure = cc_.newGpq("closure"), first = cc_.newGpq("begin"), last = cc_.newGpq("end"),
          chunk = cc_.newGpq("chunk");
  outlined.node->setArg(0, context_);
  outlined.node->setArg(1, closure);
  outlined.node->setArg(2, first);
  outlined.node->setArg(3, last);
  outlined.node->setArg(4, chunk);
  auto word = [&](size_t i) { return x86::qword_ptr(closure, static_cast<int32_t>(8 * i)); };
  auto load = [&](DType t, x86::Reg to, size_t i) {
    if (is_float(t)) {
      load_scalar(t, to, word(i));
    } else {
      cc_.mov(to.as<x86::Gp>(), word(i));
    }
  };
  cc_.mov(args_, word(kArgs));
  levels_.push_back({});
  levels_[0].preheader = cc_.cursor();
  size_t at = kFirstCaptured;
  for (const ir::Value* v : outlined.captured) {
    x86::Reg r = new_reg(v->type.dtype);
    load(v->type.dtype, r, at++);
    bind(v, r);
  }
  std::vector<x86::Reg> carried;
  for (size_t i = 0; i < loop.results.size(); ++i) {
    const DType t = loop.results[i]->type.dtype;
    x86::Reg init = new_reg(t), r = new_reg(t);
    load(t, init, at++);
    identity(loop.loop->carried[i].combiner, t, r, init);
    carried.push_back(r);
  }
  Bounds b;
  b.step_known = is_const(loop.operands[2]);
  if (b.step_known) {
    b.step = const_int(loop.operands[2]);
  } else {
    b.step_reg = cc_.newGpq();
    cc_.mov(b.step_reg, word(kStep));
  }
  b.lower = cc_.newGpq();
  b.end = cc_.newGpq();
  b.trips = cc_.newGpq();
  times_step(b.lower, first, b);
  cc_.add(b.lower, word(kLower));
  times_step(b.end, last, b);
  cc_.add(b.end, word(kLower));
  cc_.mov(b.trips, last);
  cc_.sub(b.trips, first);
  emit_allocs_of_chunk(loop);
  if (loop.loop->simd && VectorLoop::supports(*this, loop)) {
    simd_loop(vector_loop(loop), loop, b, carried);
  } else {
    sequential_loop(loop, b, carried);
  }
  if (!carried.empty()) {
    x86::Gp row = cc_.newGpq();
    const int64_t words = (static_cast<int64_t>(carried.size()) + kRowAlign - 1) / kRowAlign * kRowAlign;
    cc_.imul(row, chunk, static_cast<int32_t>(8 * words));
    cc_.add(row, word(kPartials));
    for (size_t i = 0; i < carried.size(); ++i) {
      store_scalar(loop.results[i]->type.dtype, x86::ptr(row, static_cast<int32_t>(8 * i)), carried[i]);
    }
  }
  leave(runtime::Status::done);
  finish();
  if (outlined.alone) m_.summary.resize(lines);  // the other version says the same
}

}  // namespace appy::cpu
