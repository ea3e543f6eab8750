// The reference evaluator: slow and obvious, it defines what the ops mean. Sequential, whatever the loops permit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/ir.h"

namespace appy::ir {

/// An array that the region made and that escapes from it.
struct EvalArray {
  int32_t slot = -1;
  Type type;
  std::vector<int64_t> extents;
  std::vector<char> bytes;  // C order
};

struct EvalResult {
  enum class Outcome : uint8_t { done, declined, failed, out_of_fuel } outcome = Outcome::done;
  std::vector<Word> results;  // on done, and on failed where the check has state
  int32_t check = -1;         // ordinal of the failed check in walk order
  std::vector<int64_t> info;
  std::vector<EvalArray> arrays;  // whatever the outcome: those made so far
};

/// Is told what the evaluator does, in its order.
class EvalObserver {
 public:
  virtual ~EvalObserver() = default;
  /// Iteration `k` of `trips` begins; of a `while`, whose trips nobody knows, of 0.
  virtual void iteration(const Op& loop, uint64_t k, uint64_t trips) = 0;
  virtual void left(const Op& loop) = 0;
  /// A load, store or atomic of the element at `at` in the view that begins at `base`.
  virtual void access(const Op&, const char* base, const char* at) = 0;
  virtual void barrier(const Op&) = 0;
};

/// `args` as in runtime/kernel.h. `fuel` bounds the number of ops executed.
EvalResult evaluate(const Graph&, std::span<const Word> args, uint64_t fuel = UINT64_MAX, EvalObserver* = nullptr);

/// The type that a pure op with operands computes with: of a select that of what it chooses from.
inline DType operand_type(const Op& op) { return op.operands[op.code == Opcode::select_ ? 1 : 0]->type.dtype; }
/// One pure op on words, shared with the constant folder.
Word evaluate_op(Opcode, DType result, DType operand, std::span<const Word> operands);
/// The number of a float constant; nothing of another value.
std::optional<double> known_real(const Value&);

}  // namespace appy::ir
