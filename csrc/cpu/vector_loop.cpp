#include "cpu/vector_loop.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cpu/math_calls.h"
#include "cpu/vector_regs.h"
#include "support/check.h"

namespace appy::cpu {

using ir::Combiner;
using ir::DType;
using ir::Opcode;

namespace {

constexpr size_t kFewSums = 6;                 // of a loop inside: four vectors of each are worth it
constexpr int kManyOps = 48, kSideBySide = 4;  // of a loop, and for each one of its longest chain

}  // namespace

bool VectorLoop::supports(Function& f, const ir::Op& loop) {
  if (!ir::can_reorder(loop)) return false;
  for (size_t i = 0; i < loop.results.size(); ++i) {
    const Combiner c = loop.loop->carried[i].combiner;
    if (f.module().graph.exact && is_float(loop.results[i]->type.dtype) &&
        (c == Combiner::sum_ || c == Combiner::prod_)) {
      return false;
    }
  }
  const Divergence d(loop);
  return !d.own_break && !d.unsupported_loop && !d.has_alloc;
}

VectorLoop::VectorLoop(Function& f, const ir::Op& loop) : Lanes(f), loop_(loop), d_(loop) { choose_shape(); }

void VectorLoop::choose_shape() {
  element_ = d_.widest;
  lanes_ = f_.module().vector_bytes() / element_;
  const bool straight = !d_.has_varying_if && !d_.has_inner_loop;
  // Lanes that leave a loop at different times wait for each other; a chain of dependent operations (z*z + c) leaves
  // time for a second one. Gathers and checks would only make the group that waits larger.
  const bool interleave = d_.has_divergent_loop() && !d_.has_check && !d_.has_gather && d_.ops <= 40;
  masked_only_ = (d_.has_divergent_loop() && !interleave) || d_.check_after_store || (d_.ops > 80 && !straight);
  relaxed_math_ = loop_.loop->annotated;
  const auto registers = static_cast<size_t>(vector_registers(f_.module().isa));
  main_unroll_ = 1;
  if (!masked_only_ && !d_.has_varying_if && !d_.has_inner_loop) {
    // Long chains of dependent operations (expanded elementary functions) fill the processor's window: interleave two.
    // Short sums are bound by the sum's latency: four. Without a sum iterations overlap by themselves.
    main_unroll_ = d_.ops <= 8 && !loop_.results.empty() ? 4 : 2;
    // Lanes that are put together one by one take longer than a sum of four waits for itself.
    if (may_leave_rest()) main_unroll_ = 1;
    // Memory is what they wait for: a line of each in turn.
    sums_streams_ = sums_streams();
    if (sums_streams_) main_unroll_ = std::max(1, kCacheLine / f_.module().vector_bytes());
    // Many sums are enough by themselves, and would not find registers twice.
    if (2 * (loop_.results.size() + 1) + 4 > registers) main_unroll_ = 1;
    // Many chains side by side (stencils, rows that run together) fill it by themselves, and the registers, too.
    const bool wide = d_.ops > kManyOps && d_.ops >= kSideBySide * longest_chain();
    if (loop_.results.empty() && wide) main_unroll_ = 1;
  } else if (!masked_only_ && !d_.has_divergent_loop() && d_.ops <= 8) {
    // With a condition: one branch around the arm that no lane takes. Where the arm is next to nothing, the loop around
    // that branch is what counts.
    main_unroll_ = d_.ops <= 2 ? 8 : 4;
  } else if (!masked_only_ && (!d_.has_varying_if || !d_.branches_in_loop) && d_.sums_inside > 0) {
    // What is loaded for all lanes serves several vectors, and sums do not wait for themselves, where the sums of all
    // have registers and leave one to load into and one that both factors share.
    const auto fits = [&](int unroll) { return static_cast<size_t>(unroll) * (d_.sums_inside + 1) + 1 <= registers; };
    if (fits(2)) main_unroll_ = 2;
    // Where a condition decides what becomes of them (the diagonal of a triangle), few columns are left for four.
    if (fits(4) && d_.sums_inside <= kFewSums && !d_.has_varying_if) main_unroll_ = 4;
  }
  if (interleave && !masked_only_) main_unroll_ = 2;
  bool calls = false;
  ir::walk(*loop_.blocks[0], [&](ir::Op& op) {
    if (op.results.empty() || !is_float(op.result()->type.dtype) || !ir::is_pure(op.code)) return;
    calls |= d_.varying(op.result()) && calls_function(op.code, op.result()->type.dtype);
  });
  if (calls) main_unroll_ = 1;
  if (main_unroll_ > 1) {
    // A square of lanes and elements takes as many registers as it has rows.
    for (const ir::Op* op = loop_.blocks[0]->first; op; op = op->next) {
      if (op->code == Opcode::load_ && !side_by_side(*op).empty()) main_unroll_ = 1;
    }
  }
  if (loop_.loop->le > 0) {
    while (main_unroll_ > 1 && loop_.loop->le < static_cast<int64_t>(lanes_) * main_unroll_) main_unroll_ /= 2;
  }
}

int VectorLoop::longest_chain() const {
  std::unordered_map<const ir::Value*, int> length;
  int longest = 1;
  for (const ir::Op* op = loop_.blocks[0]->first; op; op = op->next) {
    int before = 0;
    for (const ir::Value* v : op->operands) {
      if (const auto found = length.find(v); found != length.end()) before = std::max(before, found->second);
    }
    for (const ir::Value* v : op->results) length[v] = before + 1;
    longest = std::max(longest, before + 1);
  }
  return longest;
}

void VectorLoop::begin_pass(int unroll, bool masked) {
  unroll_ = unroll;
  values_.clear();
  targets_.clear();
  merges_.clear();
  folded_.clear();
  paired_.clear();
  neighbours_.clear();
  first_lanes_.clear();
  waiting_.clear();
  forget_constants();
  strided_.clear();
  windows_.clear();
  linear_.clear();
  linear_step_ = {};
  masks_.clear();
  loops_.clear();
  exec_ = {};
  may_replay_ = !masked && d_.has_check;
  loaded_.clear();
  by_test_.clear();
  find_left_out();
  find_index_tests();
  first_lane_runs_ = masked && !one_vector_ && !d_.has_check && !d_.has_varying_if && !d_.has_inner_loop;
}

void VectorLoop::plan_targets(const ir::Block& body, const std::vector<Regs>& carried) {
  const ir::Op& last = *body.last;
  if (last.code != Opcode::yield_) return;
  for (const ir::Value* v : last.operands) targets_.erase(v->id);
  for (size_t k = 0; k < carried.size(); ++k) {
    const ir::Value* v = f_.target_value(body, k, carried.size());
    if (!v || !varying(v) || !varying(body.args[body.args.size() - carried.size() + k])) continue;
    if (v->op->code == Opcode::if_ || targets_.contains(v->id)) continue;
    if (is_checked_behind(*v->op)) continue;
    targets_[v->id] = carried[k];
    // Lanes that are off keep what they have: without instructions under a mask that takes one more each time.
    const ir::Value* before =
        exec_.all || avx512_ ? sum_before(*v, *body.args[body.args.size() - carried.size() + k]) : nullptr;
    if (before && !is_checked_behind(*before->op)) targets_[before->id] = carried[k];
  }
}

/// May what the op computes be computed again, because a check behind it fails?
bool VectorLoop::is_checked_behind(const ir::Op& op) const {
  bool checked = false;
  for (const ir::Op* at = &op; at && may_replay_; at = at->next) checked |= contains_check(*at);
  return checked;
}

/// Where a carried value adds one product and then this one: what it is in between, if nothing else needs that, or the
/// carried value once it is known.
const ir::Value* VectorLoop::sum_before(const ir::Value& next, const ir::Value& carried) const {
  if (next.op->code != Opcode::fma_) return nullptr;
  const ir::Value* sum = next.op->operands[2];
  const bool plain = sum->op && sum->op->code == Opcode::fma_ && sum->op->parent == next.op->parent &&
                     sum->op->operands[2] == &carried && varying(sum) && f_.module().uses[sum->id] == 1 &&
                     f_.module().uses[carried.id] == 1;
  return plain && !negates_for_fma(sum) && !targets_.contains(sum->id) ? sum : nullptr;
}

x86::Gp VectorLoop::emit_groups(const Function::Bounds& bounds, std::span<const x86::Reg> carried) {
  leaves_rest_ = true;
  emit(bounds, carried);
  return iv_;
}

void VectorLoop::emit(const Function::Bounds& bounds, std::span<const x86::Reg> carried) {
  f_.vector_ = this;
  asmjit::Label done = cc_.newLabel(), reduced = cc_.newLabel();
  replay_ = cc_.newLabel();
  one_vector_ = bounds.most <= one_vector_up_to();
  if (!one_vector_ && bounds.known_trips <= 0 && bounds.least <= 0) {
    cc_.test(bounds.trips, bounds.trips);
    cc_.jz(done);
  }
  iv_ = cc_.newGpq("iv");
  left_ = cc_.newGpq("left");
  cc_.mov(iv_, bounds.lower);
  cc_.mov(left_, bounds.trips);
  step_ = bounds.step;
  if (!bounds.step_known) lane_step_ = bounds.step_reg;
  if (d_.has_check) {
    failed_ = cc_.newGpq();
    cc_.xor_(failed_.r32(), failed_.r32());
  }
  setup_accumulators(carried);
  repeats_ = may_repeat(bounds);
  asmjit::Label aligned = cc_.newLabel();
  if (!leaves_rest_ && (plan_stream(bounds) || store_to_align(bounds) || !loads_to_align(bounds).empty())) {
    rest_ = cc_.newGpq("rest");
    cc_.xor_(rest_.r32(), rest_.r32());
  }
  leaves_none_ = ends_with_a_group(bounds);
  repeats_ &= !leaves_none_;
  asmjit::Label over = cc_.newLabel();
  ending_ = leaves_rest_ ? reduced : repeats_ ? cc_.newLabel() : replay_;
  cc_.bind(aligned);
  if (!masked_only_ && !one_vector_) main_loop(bounds, repeats_ ? over : reduced);
  const bool enough = repeats_ && std::max(bounds.known_trips, bounds.least) >= lanes_;
  if (repeats_) {
    cc_.bind(ending_);
    if (!enough) {
      cc_.cmp(bounds.trips, lanes_);
      cc_.jb(replay_);
    }
    last_groups(bounds);
    if (!enough) cc_.jmp(over);
  }
  cc_.bind(replay_);
  if (!enough && !leaves_rest_ && !leaves_none_) masked_loop(bounds);
  cc_.bind(over);
  if (rest_.isValid()) {
    cc_.test(rest_, rest_);
    cc_.jz(reduced);
    cc_.mov(iv_, bounds.trips);
    cc_.sub(iv_, rest_);
    cc_.add(iv_, bounds.lower);
    cc_.mov(left_, rest_);
    cc_.xor_(rest_.r32(), rest_.r32());
    cc_.jmp(aligned);
  }
  cc_.bind(reduced);
  reduce(carried);
  cc_.bind(done);
  f_.vector_ = nullptr;
  if (one_vector_) return;
  f_.module().summary.push_back(f_.module().where(loop_) + ": " + std::to_string(lanes_) + " lanes x " +
                                std::to_string(main_unroll_) + ", " + std::string(name_of(f_.module().isa)) +
                                (masked_only_ ? ", masked" : ""));
}

void VectorLoop::setup_accumulators(std::span<const x86::Reg> carried) {
  unroll_ = masked_only_ || one_vector_ ? 1 : main_unroll_;
  for (size_t i = 0; i < carried.size(); ++i) {
    const DType t = loop_.results[i]->type.dtype;
    const Combiner c = loop_.loop->carried[i].combiner;
    Regs acc = fresh(t);
    if (starts_at_zero(i)) {
      for (const x86::Reg& r : acc) cc_.vxorps(as_vec(r).xmm(), as_vec(r).xmm(), as_vec(r).xmm());
      accumulators_.push_back(acc);
      continue;
    }
    x86::Reg start = f_.new_reg(t);
    f_.identity(c, t, start, carried[i]);
    x86::Reg lanes = broadcast_reg(t, start);
    f_.move(acc[0], lanes);
    // The others of a group are read whether the main loop ran or not.
    for (size_t u = 1; u < acc.size() && in_group(i); ++u) f_.move(acc[u], lanes);
    accumulators_.push_back(acc);
  }
}

void VectorLoop::enter_level(const Function::Bounds& bounds) {
  f_.push_level(loop_);
  level_ = f_.depth();
  Level& level = f_.level(level_);
  level.iv = iv_;
  level.step_known = bounds.step_known;
  const int group = lanes_ * unroll_;
  if (bounds.step_known) {
    level.step = bounds.step * group;
  } else {
    level.step_reg = cc_.newGpq();
    f_.hoist(level_, [&] { cc_.imul(level.step_reg, bounds.step_reg, group); });
  }
  f_.bind(loop_.blocks[0]->args[0], iv_);
}

void VectorLoop::leave_level() {
  f_.advance(f_.level(level_));
  for (const x86::Reg& r : linear_) cc_.vpaddq(as_vec(r), as_vec(r), as_vec(linear_step_));
  const Level& level = f_.level(level_);
  if (!level.step_known) {
    cc_.add(iv_, level.step_reg);
  } else if (level.step == static_cast<int32_t>(level.step)) {
    cc_.add(iv_, static_cast<int32_t>(level.step));
  } else {
    x86::Gp s = cc_.newGpq();
    f_.load_imm(s, level.step);
    cc_.add(iv_, s);
  }
}

void VectorLoop::iteration(bool masked) {
  const ir::Block& body = *loop_.blocks[0];
  Loop l;
  l.op = &loop_;
  l.latch = cc_.newLabel();
  l.exit = l.latch;
  for (const Regs& acc : accumulators_) l.carried.emplace_back(acc.begin(), acc.begin() + unroll_);
  for (size_t i = 0; i < l.carried.size(); ++i) set(body.args[i + 1], l.carried[i]);
  const bool splits = d_.splits(&loop_);
  if (splits) {
    for (size_t i = 0; i < l.carried.size(); ++i) l.next.push_back(copy(l.carried[i], loop_.results[i]->type.dtype));
    if (!masked) {
      exec_.all = false;
      for (int u = 0; u < unroll_; ++u) exec_.r.push_back(copy(mask_all(), DType::bool_));
    }
  } else if (!masked) {
    plan_targets(body, l.carried);
  } else if (!d_.has_check) {
    plan_targets(body, l.carried);
    // Not in place: lanes that are off keep what they have.
    merges_ = std::exchange(targets_, {});
  }
  l.masks = 0;
  loops_.push_back(l);
  block(body, [&](const ir::Op& yield) { end_iteration(yield, l); });
  cc_.bind(l.latch);
  if (splits) assign_all(l.carried, l.next);
  loops_.pop_back();
}

void VectorLoop::main_loop(const Function::Bounds& bounds, asmjit::Label reduced) {
  begin_pass(main_unroll_, false);
  undone_ = cc_.newLabel();
  // A store under a mask takes a dozen instructions on AMD's processors: not for whole vectors that are left.
  const bool singly = d_.stores_inside && !avx512_ && unroll_ > 1 && !worth_streaming_.isValid() && !leaves_none_;
  asmjit::Label single = cc_.newLabel();
  if (!leaves_none_) {
    cc_.cmp(left_, lanes_ * unroll_);
    cc_.jb(singly ? single : ending_);
  }
  for (size_t k = 0; k < accumulators_.size(); ++k) {
    if (in_group(k) || starts_at_zero(k)) continue;
    for (size_t u = 1; u < accumulators_[k].size(); ++u) f_.move(accumulators_[k][u], accumulators_[k][0]);
  }
  enter_level(bounds);
  asmjit::Label stream_only = cc_.newLabel();
  bool apart = false;
  if (worth_streaming_.isValid()) {
    align(*stream_.stores[0], store_to_align(bounds) ? x86::Gp() : worth_streaming_);
    decide_to_stream();
    apart = unroll_ > 1 && waits_for_memory();
    if (apart) {
      cc_.test(streaming_, streaming_);
      cc_.jnz(stream_only);
      streaming_ = {};
    }
  } else if (rest_.isValid()) {
    const auto loads = loads_to_align(bounds);
    loads.empty() ? align(*store_to_align(bounds), {}) : align_loads(loads);
  }
  groups();
  streaming_ = {};
  f_.pop_level();
  cc_.bind(undone_);
  merge_accumulators();
  if (leaves_rest_ || leaves_none_) return;
  cc_.test(left_, left_);
  cc_.jz(reduced);
  if (apart) {
    // A loop that waits for memory is faster where it goes through each line of every array in turn.
    cc_.jmp(ending_);
    cc_.bind(stream_only);
    stream_only_ = true;
  } else if (singly) {
    cc_.bind(single);
    cc_.cmp(left_, lanes_);
    cc_.jb(ending_);
  } else {
    return;
  }
  undone_ = ending_;
  begin_pass(1, false);
  enter_level(bounds);
  groups();
  stream_only_ = false;
  f_.pop_level();
  cc_.test(left_, left_);
  cc_.jz(reduced);
}

void VectorLoop::groups() {
  const int group = lanes_ * unroll_;
  asmjit::Label head = cc_.newLabel();
  const ir::Op* poll = f_.strip_poll(loop_);
  asmjit::Label strip = cc_.newLabel();
  x86::Gp until;
  if (poll) {
    until = cc_.newGpq("until");
    x86::Gp least = cc_.newGpq();
    cc_.bind(strip);
    cc_.mov(least.r32(), group);
    cc_.lea(until, x86::ptr(left_, static_cast<int32_t>(-kStrip)));
    cc_.cmp(until, least);
    cc_.cmovl(until, least);
    f_.leave_out(poll);
  }
  cc_.bind(head);
  iteration(false);
  leave_level();
  cc_.sub(left_, group);
  if (poll) {
    f_.leave_out(nullptr);
    cc_.cmp(left_, until);
    cc_.jae(head);
    asmjit::Label over = cc_.newLabel();
    cc_.cmp(left_, group);
    cc_.jb(over);
    f_.emit_poll(*poll);
    cc_.jmp(strip);
    cc_.bind(over);
  } else {
    cc_.cmp(left_, group);
    cc_.jae(head);
  }
}

bool VectorLoop::ends_with_a_group(const Function::Bounds& bounds) const {
  if (masked_only_ || one_vector_ || leaves_rest_ || rest_.isValid() || d_.has_check) return false;
  const int64_t group = static_cast<int64_t>(lanes_) * main_unroll_;
  return bounds.known_trips > 0 ? bounds.known_trips % group == 0 : bounds.divisor % group == 0;
}

bool VectorLoop::may_repeat(const Function::Bounds& bounds) const {
  // With AVX-512 stores under a mask are as fast as others.
  if (avx512_ || masked_only_ || d_.has_inner_loop || d_.has_check || !accumulators_.empty()) return false;
  if (!bounds.step_known || bounds.step != static_cast<int32_t>(bounds.step)) return false;
  const int64_t trips = bounds.known_trips;
  if (trips >= 0 && (trips < lanes_ || trips % (static_cast<int64_t>(lanes_) * main_unroll_) == 0)) return false;
  std::unordered_set<const ir::Value*> written;
  ir::walk(*loop_.blocks[0], [&](const ir::Op& op) {
    if (op.code == Opcode::store_) written.insert(op.view());
  });
  bool same = !f_.module().graph.may_alias;
  ir::walk(*loop_.blocks[0], [&](const ir::Op& op) {
    same &= op.code != Opcode::atomic_ && (op.code != Opcode::load_ || !written.contains(op.view()));
  });
  return same && !written.empty();
}

void VectorLoop::last_groups(const Function::Bounds& bounds) {
  asmjit::Label again = cc_.newLabel(), whole = cc_.newLabel();
  cc_.bind(again);
  cc_.cmp(left_, lanes_);
  cc_.jae(whole);
  x86::Gp back = cc_.newGpq();
  cc_.lea(back, x86::ptr(left_, -lanes_));
  if (bounds.step != 1) cc_.imul(back, back, static_cast<int32_t>(bounds.step));
  cc_.add(iv_, back);
  cc_.mov(left_, lanes_);
  cc_.bind(whole);
  begin_pass(1, false);
  enter_level(bounds);
  f_.leave_out(f_.strip_poll(loop_));
  iteration(false);
  f_.leave_out(nullptr);
  leave_level();
  f_.pop_level();
  cc_.sub(left_, lanes_);
  cc_.jg(again);
}

void VectorLoop::masked_loop(const Function::Bounds& bounds) {
  begin_pass(1, true);
  asmjit::Label head = cc_.newLabel();
  enter_level(bounds);
  // After the main loop there is next to nothing left to do.
  if (!masked_only_) f_.leave_out(f_.strip_poll(loop_));
  cc_.bind(head);
  exec_.all = false;
  const bool small = !masked_only_ && !d_.has_check && main_unroll_ <= 4;  // less than the main loop takes at once
  exec_.r = {mask_below(left_, lane_numbers(), small)};
  iteration(true);
  if (d_.has_check) {
    cc_.test(failed_.r32(), failed_.r32());
    cc_.jnz(f_.cold([this] { f_.leave(runtime::Status::failed); }));
  }
  f_.leave_out(nullptr);
  if (!one_vector_) {
    leave_level();
    cc_.sub(left_, lanes_);
    cc_.jg(head);
  }
  f_.pop_level();
}

bool VectorLoop::in_group(size_t k) const {
  const auto& carried = loop_.loop->carried;
  if (ir::is_follower(carried[k].combiner)) return true;
  for (size_t i = 0; i < carried.size(); ++i) {
    if (!ir::is_follower(carried[i].combiner)) continue;
    const auto leader = static_cast<size_t>(carried[i].leader);
    if (leader == k || static_cast<size_t>(carried[leader].tie) == k) return true;
  }
  return false;
}

bool VectorLoop::knows(std::span<ir::Value* const> values) const {
  return std::all_of(values.begin(), values.end(),
                     [&](const ir::Value* v) { return ir::defined_outside(*v, *loop_.blocks[0]); });
}

void VectorLoop::merge_accumulators() {
  for (size_t k = 0; k < accumulators_.size(); ++k) {
    if (in_group(k)) continue;
    Regs& acc = accumulators_[k];
    const Combiner c = loop_.loop->carried[k].combiner;
    const DType t = loop_.results[k]->type.dtype;
    if (c == Combiner::last_) {
      f_.move(acc[0], acc.back());
      continue;
    }
    for (size_t width = acc.size(); width > 1; width /= 2) {
      for (size_t u = 0; u < width / 2; ++u) elementwise(opcode_of(c), t, acc[u], acc[u + width / 2], acc[u]);
    }
  }
}

}  // namespace appy::cpu
