#include "cpu/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace appy::cpu {

using ir::Opcode;

namespace {

/// Trips of a loop of which nothing is known.
constexpr double kUsualTrips = 32;
/// To have a line of the cache that no neighbour of the iteration uses: 10 ns.
constexpr double kFetch = 10 * 16;
/// Products with trip counts must not overflow.
constexpr double kMost = 0x1p31;

/// A number that is known now or at run time. Double, so that nothing overflows.
struct Number {
  double known = 0;
  x86::Xmm reg;
  bool varies() const { return reg.isValid(); }
};

bool is_heavy(Opcode code) {
  return (code >= Opcode::cbrt_ && code <= Opcode::lgamma_) || code == Opcode::pow_ || code == Opcode::atan2_ ||
         code == Opcode::div_ || code == Opcode::sqrt_ || code == Opcode::floordiv_ || code == Opcode::mod_;
}

class Estimate {
 public:
  Estimate(Function& f, const ir::Op& loop, const Function::Bounds& bounds)
      : f_(f), cc_(f.cc()), loop_(*loop.loop), body_(*loop.blocks[0]), bounds_(bounds) {}

  x86::Gp iteration() {
    const Number cost = at_most(of_block(body_, loop_.simd ? 4 : 1), kMost);
    x86::Gp word = f_.cc().newGpq();
    if (cost.varies()) {
      cc_.vcvttsd2si(word, cost.reg);
    } else {
      f_.load_imm(word, static_cast<int64_t>(cost.known));
    }
    return word;
  }

 private:
  Number of_block(const ir::Block& block, int64_t lanes) {
    double straight = 0;
    Number cost;
    for (const ir::Op* op = block.first; op; op = op->next) {
      switch (op->code) {
        case Opcode::const_:
          break;
        case Opcode::alloc_:
          straight += 16 * 20;
          break;
        case Opcode::for_: {
          const Number trips = trips_of(*op);
          cost = add(cost, mul(trips, of_block(*op->blocks[0], op->loop->simd ? 4 : lanes)));
          straight += 16;
          break;
        }
        case Opcode::while_:
          cost = add(cost, mul({kUsualTrips, {}}, of_block(*op->blocks[0], lanes)));
          straight += 16;
          break;
        case Opcode::if_:
          cost = add(cost, max(of_block(*op->blocks[0], lanes), of_block(*op->blocks[1], lanes)));
          straight += 8;
          break;
        default:
          straight += static_cast<double>((is_heavy(op->code) ? 120 : 8) / lanes + 1);
          if (op->access && has_line_of_its_own(*op, block)) straight += kFetch;
      }
    }
    return add(cost, {straight, {}});
  }

  /// Does the loop go down a column?
  static bool has_line_of_its_own(const ir::Op& access, const ir::Block& body) {
    if (body.args.empty()) return false;
    for (const auto& [term, stride] : address_form(access).terms) {
      if (term == body.args[0]) return !stride.constant() || stride.known >= kCacheLine || stride.known <= -kCacheLine;
    }
    return false;
  }

  Number trips_of(const ir::Op& loop) {
    const std::optional<Number> lower = value(loop.operands[0]), upper = value(loop.operands[1]),
                                step = value(loop.operands[2]);
    std::optional<Number>& iv = values_[loop.blocks[0]->args[0]->id];
    if (!lower || !upper || !step) {
      iv = std::nullopt;
      return {kUsualTrips, {}};
    }
    // Of one iteration that one.
    iv = middle(*lower, sub(*upper, {1, {}}));
    return max(div(sub(*upper, *lower), *step), {0, {}});
  }

  /// Of an integer, in the middle iteration of every loop around it.
  std::optional<Number> value(const ir::Value* v) {
    if (f_.is_const(v)) return Number{static_cast<double>(f_.const_int(v)), {}};
    if (auto it = values_.find(v->id); it != values_.end()) return it->second;
    const std::optional<Number> found = computed(v);
    values_[v->id] = found;
    return found;
  }

  std::optional<Number> computed(const ir::Value* v) {
    if (v == body_.args[0]) return middle(converted(bounds_.lower), converted(bounds_.end));
    if (is_float(v->type.dtype)) return std::nullopt;
    if (ir::defined_outside(*v, body_)) return converted(f_.gp(v));
    if (!v->op || !ir::is_pure(v->op->code) || v->op->operands.size() != 2) return std::nullopt;
    const Opcode code = v->op->code;
    const std::optional<Number> a = value(v->op->operands[0]), b = value(v->op->operands[1]);
    if (!a || !b) return std::nullopt;
    switch (code) {
      case Opcode::add_:
        return add(*a, *b);
      case Opcode::sub_:
        return sub(*a, *b);
      case Opcode::mul_:
        return mul(*a, *b);
      case Opcode::floordiv_:
        return floor(div(*a, *b));
      case Opcode::shr_:
        if (b->varies()) return std::nullopt;
        return mul(*a, {std::exp2(-b->known), {}});
      case Opcode::pymin_:
        return min(*a, *b);
      case Opcode::pymax_:
        return max(*a, *b);
      default:
        return std::nullopt;
    }
  }

  Number converted(x86::Gp word) {
    Number out{0, cc_.newXmmSd()};
    cc_.vxorps(out.reg, out.reg, out.reg);
    cc_.vcvtsi2sd(out.reg, out.reg, word);
    return out;
  }

  x86::Xmm in_register(const Number& n) {
    if (n.varies()) return n.reg;
    x86::Xmm reg = cc_.newXmmSd();
    cc_.vmovsd(reg, f_.constant64(std::bit_cast<uint64_t>(n.known)));
    return reg;
  }

  template <class Emit>
  Number made(const Number& a, const Number& b, double known, Emit&& emit) {
    if (!a.varies() && !b.varies()) return {known, {}};
    Number out{0, cc_.newXmmSd()};
    emit(out.reg, in_register(a), in_register(b));
    return out;
  }

  Number add(const Number& a, const Number& b) {
    return made(a, b, a.known + b.known, [&](auto to, auto x, auto y) { cc_.vaddsd(to, x, y); });
  }
  Number sub(const Number& a, const Number& b) {
    return made(a, b, a.known - b.known, [&](auto to, auto x, auto y) { cc_.vsubsd(to, x, y); });
  }
  Number mul(const Number& a, const Number& b) {
    return made(a, b, a.known * b.known, [&](auto to, auto x, auto y) { cc_.vmulsd(to, x, y); });
  }
  Number div(const Number& a, const Number& b) {
    if (!b.varies() && b.known == 1) return a;
    return made(a, b, a.known / b.known, [&](auto to, auto x, auto y) { cc_.vdivsd(to, x, y); });
  }
  Number floor(const Number& a) {
    return made(a, a, std::floor(a.known), [&](auto to, auto x, auto) { cc_.vroundsd(to, x, x, 1); });
  }
  // Where an operand is NaN (of 0 / 0) the second one.
  Number min(const Number& a, const Number& b) {
    return made(a, b, a.known < b.known ? a.known : b.known, [&](auto to, auto x, auto y) { cc_.vminsd(to, x, y); });
  }
  Number max(const Number& a, const Number& b) {
    return made(a, b, a.known > b.known ? a.known : b.known, [&](auto to, auto x, auto y) { cc_.vmaxsd(to, x, y); });
  }
  Number at_most(const Number& a, double limit) { return min(a, {limit, {}}); }
  Number middle(const Number& lower, const Number& upper) { return mul(add(lower, upper), {0.5, {}}); }

  Function& f_;
  Compiler& cc_;
  const ir::Loop& loop_;
  const ir::Block& body_;
  const Function::Bounds& bounds_;
  std::unordered_map<uint32_t, std::optional<Number>> values_;
};

}  // namespace

int depth_of_cost(Function& f, const ir::Op& loop) {
  const ir::Block& body = *loop.blocks[0];
  int deepest = 0;
  std::unordered_set<const ir::Value*> seen;
  const std::function<void(const ir::Value*)> look = [&](const ir::Value* v) {
    if (f.is_const(v) || is_float(v->type.dtype) || !seen.insert(v).second) return;
    if (ir::defined_outside(*v, body)) {
      f.reg(v);
      deepest = std::max(deepest, f.depth_of(v));
    } else if (v->op && ir::is_pure(v->op->code)) {
      for (const ir::Value* operand : v->op->operands) look(operand);
    }
  };
  const auto look_at_bounds = [&](const ir::Op& of) {
    for (size_t i = 0; i < 3; ++i) look(of.operands[i]);
  };
  look_at_bounds(loop);
  ir::walk(*loop.blocks[0], [&](const ir::Op& op) {
    if (op.code == Opcode::for_) look_at_bounds(op);
  });
  return deepest;
}

x86::Gp iteration_cost(Function& f, const ir::Op& loop, const Function::Bounds& bounds) {
  return Estimate(f, loop, bounds).iteration();
}

}  // namespace appy::cpu
