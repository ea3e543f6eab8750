#include "cpu/packs.h"

#include <algorithm>
#include <utility>

#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

namespace {

bool is_arithmetic(Opcode code) {
  return code == Opcode::add_ || code == Opcode::sub_ || code == Opcode::mul_ || code == Opcode::div_;
}

/// Its first operands, which runs may have made: none of a load, what a store stores, both of arithmetic.
size_t operands_in_packs(const ir::Op& op) { return op.code == Opcode::load_ ? 0 : op.code == Opcode::store_ ? 1 : 2; }

class Finder {
 public:
  Finder(const ir::Op& loop, std::span<const uint32_t> uses) : uses_(uses), type_(loop.results[0]->type.dtype) {
    packs_.count = loop.results.size();
    for (const ir::Value* sum : loop.results) made_[sum] = made_.size();
  }

  std::optional<Packs> run(const ir::Op& loop) {
    size_t open = 1;  // runs, the sums among them, whose values are to be used yet
    for (const ir::Op* op = loop.next; open > 0; op = packs_.end) {
      if (!op || ir::is_terminator(op->code)) return {};
      packs_.end = op->next;
      size_t used = 0;
      if (auto found = run_at(*op, used)) {
        const bool stores = op->code == Opcode::store_;
        packs_.end = found->back()->next;
        packs_.runs.push_back(std::move(*found));
        open += (stores ? 0 : 1) - used;
      } else if (reads_any(*op) || (op->code != Opcode::load_ && !ir::is_pure(op->code))) {
        return {};
      }
    }
    return packs_;
  }

 private:
  bool reads_any(const ir::Op& op) const {
    return std::ranges::any_of(op.operands, [this](const ir::Value* v) { return made_.contains(v); });
  }

  /// A run that begins here, and how many runs it uses up.
  std::optional<Packs::Run> run_at(const ir::Op& first, size_t& used) {
    if (first.code != Opcode::load_ && first.code != Opcode::store_ && !is_arithmetic(first.code)) return {};
    Packs::Run run;
    for (const ir::Op* op = &first; op && run.size() < packs_.count; op = op->next) {
      if (op->code != first.code || !fits(*op)) return {};
      run.push_back(op);
    }
    if (run.size() < packs_.count) return {};
    for (size_t n = 0; n < operands_in_packs(first); ++n) {
      const ir::Value* v = first.operands[n];
      const auto from = made_.find(v);
      const bool shared = from == made_.end();
      if (!shared && from->second % packs_.count != 0) return {};
      for (size_t k = 0; k < run.size(); ++k) {
        const ir::Value* own = run[k]->operands[n];
        if (shared ? own != v : !made_.contains(own) || made_.at(own) != from->second + k) return {};
      }
      used += !shared;
    }
    if (is_arithmetic(first.code) && used == 0) return {};
    // What addresses are made of is known as numbers.
    for (const ir::Op* op : run) {
      for (size_t n = operands_in_packs(*op); n < op->operands.size(); ++n) {
        if (made_.contains(op->operands[n])) return {};
      }
    }
    if (first.code == Opcode::store_) return used == 1 ? std::optional(run) : std::nullopt;
    const size_t place = made_.size();
    for (size_t k = 0; k < run.size(); ++k) made_[run[k]->result()] = place + k;
    return run;
  }

  bool fits(const ir::Op& op) const {
    if (op.code == Opcode::store_) return op.operands[0]->type.dtype == type_ && op.view()->type.dtype == type_;
    return op.result()->type.dtype == type_ && uses_[op.result()->id] == 1;
  }

  std::span<const uint32_t> uses_;
  const DType type_;
  Packs packs_;
  std::unordered_map<const ir::Value*, size_t> made_;  // numbers: those of a run follow each other
};

}  // namespace

const Packs::Run* Packs::begun_by(const ir::Op& op) const {
  const auto found = std::ranges::find_if(runs, [&](const Run& run) { return run.front() == &op; });
  return found == runs.end() ? nullptr : &*found;
}

std::optional<Packs> find_packs(const ir::Op& loop, size_t lanes, std::span<const uint32_t> uses) {
  const size_t count = loop.results.size();
  if (count == 0 || count % lanes != 0) return {};
  const DType type = loop.results[0]->type.dtype;
  if ((type != DType::f64_ && type != DType::f32_) || lanes * static_cast<size_t>(ir::size_of(type)) < 16) return {};
  for (size_t k = 0; k < count; ++k) {
    const ir::Value& sum = *loop.results[k];
    const bool alike = sum.type.dtype == type && loop.loop->carried[k].combiner == ir::Combiner::sum_;
    if (!alike || uses[sum.id] != 1) return {};
  }
  return Finder(loop, uses).run(loop);
}

PackedSums::PackedSums(Function& f, const ir::Op& loop, Packs packs, size_t lanes)
    : Lanes(f), loop_(loop), packs_(std::move(packs)), type_(loop.results[0]->type.dtype), wide_(type_ == DType::f64_) {
  lanes_ = static_cast<int>(lanes);
  for (size_t k = 0; k < packs_.count; k += lanes) {
    sums_.push_back(vec(bytes(type_)));
    packed_[loop.results[k]] = sums_.back();
  }
}

/// One vector of its parts of 16 bytes, in their order.
x86::Vec PackedSums::joined(std::vector<x86::Vec> parts) {
  for (int bytes = 32; parts.size() > 1; bytes *= 2) {
    std::vector<x86::Vec> next;
    for (size_t k = 0; k < parts.size(); k += 2) {
      if (bytes == 32) {
        const x86::Vec whole = cc_.newYmm();
        avx512_ ? cc_.vinsertf32x4(whole.ymm(), parts[k].ymm(), parts[k + 1].xmm(), 1)
                : cc_.vinsertf128(whole.ymm(), parts[k].ymm(), parts[k + 1].xmm(), 1);
        next.push_back(whole);
      } else {
        const x86::Vec whole = cc_.newZmm();
        cc_.vinsertf64x4(whole.zmm(), parts[k].zmm(), parts[k + 1].ymm(), 1);
        next.push_back(whole);
      }
    }
    parts = std::move(next);
  }
  return parts[0];
}

void PackedSums::take(std::span<const x86::Reg> scalars) {
  const size_t each = wide_ ? 2 : 4;
  for (size_t n = 0; n < sums_.size(); ++n) {
    std::vector<x86::Vec> parts;
    for (size_t k = n * lanes(); k < (n + 1) * lanes(); k += each) {
      const auto at = [&](size_t m) { return scalars[k + m].as<x86::Xmm>(); };
      const x86::Xmm part = cc_.newXmm();
      if (wide_) {
        cc_.vunpcklpd(part, at(0), at(1));
      } else {
        cc_.vinsertps(part, at(0), at(1), 0x10);
        cc_.vinsertps(part, part, at(2), 0x20);
        cc_.vinsertps(part, part, at(3), 0x30);
      }
      parts.push_back(part);
    }
    f_.move(sums_[n], joined(std::move(parts)));
  }
}

namespace {

/// Do the accesses lie beside each other, in their order?
bool are_neighbours(std::span<const ir::Op* const> accesses) {
  const Form first = address_form(*accesses[0]);
  const int64_t size = ir::size_of(first.view->type.dtype);
  for (size_t k = 1; k < accesses.size(); ++k) {
    const Form form = address_form(*accesses[k]);
    if (!same_form(first, form) || form.offset.dims != first.offset.dims ||
        form.offset.known != first.offset.known + static_cast<int64_t>(k) * size)
      return false;
  }
  return true;
}

}  // namespace

x86::Vec PackedSums::load(std::span<const ir::Op* const> loads) {
  if (are_neighbours(loads)) {
    const x86::Vec whole = vec(bytes(type_));
    cc_.emit(wide_ ? Id::kIdVmovupd : Id::kIdVmovups, whole, f_.address(*loads[0]));
    return whole;
  }
  std::vector<x86::Vec> parts;
  for (size_t k = 0; k < loads.size(); k += wide_ ? 2 : 4) {
    const x86::Xmm part = cc_.newXmm();
    if (wide_) {
      cc_.vmovsd(part, f_.address(*loads[k]));
      cc_.vmovhpd(part, part, f_.address(*loads[k + 1]));
    } else {
      cc_.vmovss(part, f_.address(*loads[k]));
      for (uint32_t n = 1; n < 4; ++n) cc_.vinsertps(part, part, f_.address(*loads[k + n]), n << 4);
    }
    parts.push_back(part);
  }
  return joined(std::move(parts));
}

void PackedSums::store(std::span<const ir::Op* const> stores, const x86::Vec& pack) {
  if (are_neighbours(stores)) {
    cc_.emit(wide_ ? Id::kIdVmovupd : Id::kIdVmovups, f_.address(*stores[0]), pack);
    return;
  }
  const size_t each = wide_ ? 2 : 4;
  for (size_t k = 0; k < stores.size(); k += each) {
    x86::Xmm part = pack.xmm();
    if (k > 0) {
      part = cc_.newXmm();
      const auto which = static_cast<uint32_t>(k / each);
      avx512_ ? cc_.vextractf32x4(part, pack, which) : cc_.vextractf128(part, pack.ymm(), which);
    }
    if (wide_) {
      cc_.vmovsd(f_.address(*stores[k]), part);
      cc_.vmovhpd(f_.address(*stores[k + 1]), part);
    } else {
      cc_.vmovss(f_.address(*stores[k]), part);
      for (uint32_t n = 1; n < 4; ++n) cc_.vextractps(f_.address(*stores[k + n]), part, n);
    }
  }
}

void PackedSums::emit_run(const Packs::Run& run) {
  const Opcode code = run[0]->code;
  std::unordered_map<const ir::Value*, x86::Vec> shared;
  const auto operand = [&](const ir::Value* v) {
    if (const auto found = packed_.find(v); found != packed_.end()) return found->second;
    const auto [at, is_new] = shared.try_emplace(v);
    if (is_new) at->second = as_vec(broadcast_reg(type_, f_.reg(v)));
    return at->second;
  };
  for (size_t k = 0; k < run.size(); k += lanes()) {
    const std::span some(&run[k], lanes());
    if (code == Opcode::load_) {
      packed_[some[0]->result()] = load(some);
    } else if (code == Opcode::store_) {
      store(some, packed_.at(some[0]->operands[0]));
    } else {
      const x86::Vec to = vec(bytes(type_)), left = operand(some[0]->operands[0]);
      elementwise(code, type_, left, operand(some[0]->operands[1]), to);
      packed_[some[0]->result()] = to;
    }
  }
}

void PackedSums::emit() {
  for (const ir::Op* op = loop_.next; op != packs_.end; op = op->next) {
    if (const Packs::Run* run = packs_.begun_by(*op)) {
      emit_run(*run);
      op = run->back();
    } else {
      f_.emit(*op);
    }
  }
}

}  // namespace appy::cpu
