// What is done to all sums of a loop, one after the other, is done to them as vectors: the reduction leaves them beside
// each other anyway. `Superword level parallelism` of Larsen and Amarasinghe (PLDI 2000), with the sums as seeds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cpu/lanes.h"
#include "ir/ir.h"

namespace appy::cpu {

/// Runs of ops behind a loop with `count` sums: each has one op for each sum, all of one kind, in the order of the
/// sums. They are loads, arithmetic on what runs before them made and on values that all share, and stores. Nothing
/// else uses what they make. Other ops between them use none of it.
struct Packs {
  using Run = std::vector<const ir::Op*>;
  size_t count = 0;
  std::vector<Run> runs;
  const ir::Op* end = nullptr;  // what follows the last run
  /// The run that begins with the op, or null.
  const Run* begun_by(const ir::Op&) const;
};

/// Nothing where sums do not fill vectors of so many lanes, or are used otherwise. `uses` by value id.
std::optional<Packs> find_packs(const ir::Op& loop, size_t lanes, std::span<const uint32_t> uses);

/// The sums of a loop in vectors of so many lanes, and the code of what is done to them.
class PackedSums : private Lanes {
 public:
  PackedSums(Function&, const ir::Op& loop, Packs, size_t lanes);
  std::span<const x86::Vec> registers() const { return sums_; }
  /// They are these, one register each.
  void take(std::span<const x86::Reg> scalars);
  /// The runs and what stands between them.
  void emit();
  /// What follows that.
  const ir::Op* end() const { return packs_.end; }

 private:
  void emit_run(const Packs::Run&);
  x86::Vec joined(std::vector<x86::Vec> parts);
  x86::Vec load(std::span<const ir::Op* const> loads);
  void store(std::span<const ir::Op* const> stores, const x86::Vec&);

  const ir::Op& loop_;
  const Packs packs_;
  const ir::DType type_;
  const bool wide_;  // f64, else f32
  std::vector<x86::Vec> sums_;
  std::unordered_map<const ir::Value*, x86::Vec> packed_;  // by the first value of each
};

}  // namespace appy::cpu
