#include "ir/eval.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "ir/op_printer.h"
#include "ir/typing.h"

namespace appy::ir {

namespace {

using Outcome = EvalResult::Outcome;

struct View {
  char* data = nullptr;
  const Word* extents = nullptr;
  const Word* strides = nullptr;
};

uint64_t trip_count(int64_t lower, int64_t upper, int64_t step) {
  const auto lo = static_cast<uint64_t>(lower), hi = static_cast<uint64_t>(upper), by = static_cast<uint64_t>(step);
  if (step > 0) return lower < upper ? (hi - lo - 1) / by + 1 : 0;
  return lower > upper ? (lo - hi - 1) / (0 - by) + 1 : 0;
}

class Evaluator {
 public:
  Evaluator(const Graph& graph, std::span<const Word> args, uint64_t fuel, EvalObserver* observer)
      : graph_(graph), fuel_(fuel), observer_(observer), words_(graph.value_count()), views_(graph.value_count()) {
    size_t at = 0;
    for (const Value* param : graph.body->args) {
      const size_t count = words_of(param->type);
      if (args.size() < at + count) throw std::logic_error("evaluate: too few arguments");
      if (param->type.is_view()) {
        const Word* words = args.data() + at;
        views_[param->id] = {reinterpret_cast<char*>(words[0]), words + 1, words + 1 + param->type.rank};
      } else {
        words_[param->id] = args[at];
      }
      at += count;
    }
    if (at != args.size()) throw std::logic_error("evaluate: too many arguments");
    int32_t ordinal = 0;
    walk(*graph.body, [&](Op& op) {
      if (op.code == Opcode::check_) ordinals_[&op] = ordinal++;
    });
  }

  EvalResult run() {
    if (block(*graph_.body) != Exit::stopped) result_.results = leaving_;
    for (auto& [slot, made] : buffers_) {
      if (!made.op->escapes) continue;
      EvalArray array{slot, made.op->result()->type, {}, std::move(made.bytes)};
      for (size_t d = 0; d < made.op->operands.size(); ++d) {
        array.extents.push_back(static_cast<int64_t>(made.shape[d]));
      }
      result_.arrays.push_back(std::move(array));
    }
    return std::move(result_);
  }

 private:
  enum class Exit : uint8_t { yielded, continued, broke, stopped };

  struct Buffer {
    const Op* op;
    std::vector<char> bytes;
    std::vector<Word> shape;  // extents, strides
  };

  int64_t i64(const Value* v) const { return static_cast<int64_t>(words_[v->id]); }

  std::vector<Word> words(std::span<Value* const> values) const {
    std::vector<Word> made;
    made.reserve(values.size());
    for (const Value* v : values) made.push_back(words_[v->id]);
    return made;
  }

  void bind(std::span<Value* const> values, const std::vector<Word>& words) {
    for (size_t i = 0; i < values.size(); ++i) words_[values[i]->id] = words[i];
  }

  [[noreturn]] void fail(const Op& op, const std::string& what) const {
    throw std::logic_error("evaluate: " + what + ": " + OpPrinter(graph_).line(op));
  }

  Exit stop(Outcome outcome) {
    result_.outcome = outcome;
    return Exit::stopped;
  }

  /// Runs the ops; the terminator's values are in leaving_.
  Exit block(const Block& block) {
    for (const Op* op = block.first; op; op = op->next) {
      if (fuel_-- == 0) return fuel_ = 0, stop(Outcome::out_of_fuel);
      if (is_terminator(op->code)) {
        leaving_ = words(op->operands);
        if (op->code == Opcode::yield_) return Exit::yielded;
        return op->code == Opcode::break_ ? Exit::broke : Exit::continued;
      }
      const Exit exit = this->op(*op);
      if (exit != Exit::yielded) return exit;
    }
    throw std::logic_error("evaluate: a block without terminator");
  }

  /// Exit::yielded means: go on with the next op.
  Exit op(const Op& op) {
    switch (op.code) {
      case Opcode::const_:
        words_[op.result()->id] = op.imm;
        return Exit::yielded;
      case Opcode::dim_:
        words_[op.result()->id] = views_[op.operands[0]->id].extents[op.dim];
        return Exit::yielded;
      case Opcode::alloc_:
        return alloc(op);
      case Opcode::load_:
        words_[op.result()->id] = load(op, element(op));
        return Exit::yielded;
      case Opcode::store_:
        store(op, element(op), words_[op.operands[0]->id]);
        return Exit::yielded;
      case Opcode::atomic_:
        return atomic(op);
      case Opcode::check_:
        return check(op);
      case Opcode::barrier_:
        if (observer_) observer_->barrier(op);
        return Exit::yielded;
      case Opcode::poll_:
        return Exit::yielded;
      case Opcode::for_:
        return for_loop(op);
      case Opcode::while_:
        return while_loop(op);
      case Opcode::if_: {
        const Exit exit = block(*op.blocks[words_[op.operands[0]->id] ? 0 : 1]);
        if (exit == Exit::yielded) bind(op.results, leaving_);
        return exit;
      }
      default:
        break;
    }
    words_[op.result()->id] =
        evaluate_op(op.code, op.result()->type.dtype, op.operands[0]->type.dtype, words(op.operands));
    return Exit::yielded;
  }

  /// A buffer of its own for each execution, full of what nobody should read.
  Exit alloc(const Op& op) {
    constexpr int64_t kMost = int64_t{1} << 30;
    const size_t rank = op.operands.size();
    std::vector<Word> shape = words(op.operands);
    shape.resize(2 * rank);
    int64_t bytes = size_of(op.result()->type.dtype);
    bool empty = false;
    for (size_t k = 0; k < rank; ++k) {
      const size_t d = by_speed(op.result()->type, k);
      const auto extent = static_cast<int64_t>(shape[d]);
      if (extent < 0) fail(op, "a negative extent");
      shape[rank + d] = static_cast<Word>(bytes);
      empty |= extent == 0;
      if (extent > 0 && bytes > kMost / extent) fail(op, "an array too large to be evaluated");
      bytes *= extent > 0 ? extent : 1;
    }
    constexpr char kPoison = static_cast<char>(0xa5);
    Buffer& made = buffers_[op.slot];  // nobody can see what its last execution made
    made = {&op, std::vector<char>(empty ? 0 : static_cast<size_t>(bytes), kPoison), std::move(shape)};
    views_[op.result()->id] = {made.bytes.data(), made.shape.data(), made.shape.data() + rank};
    return Exit::yielded;
  }

  /// What a subscript is less than: the extent, or in the fastest dimension behind subscripts of 0 the number of
  /// elements that all of these dimensions have.
  static Word reach(const Op& op, const View& view, size_t d) {
    const size_t rank = op.access->offset.size();
    const Layout layout = op.view()->type.layout;
    Word all = view.extents[d];
    if (layout == Layout::c && d + 1 == rank) {
      while (d-- > 0 && is_zero(*op.access, d)) all *= view.extents[d];
    } else if (layout == Layout::f && d == 0) {
      while (++d < rank && is_zero(*op.access, d)) all *= view.extents[d];
    }
    return all;
  }

  static bool is_zero(const Access& access, size_t d) {
    const auto& coefs = access.coef[d];
    return access.offset[d] == 0 && std::all_of(coefs.begin(), coefs.end(), [](int64_t c) { return c == 0; });
  }

  char* element(const Op& op) const {
    const View& view = views_[op.view()->id];
    const Access& access = *op.access;
    char* at = view.data;
    for (size_t d = 0; d < access.offset.size(); ++d) {
      auto index = static_cast<Word>(access.offset[d]);
      for (size_t k = 0; k < static_cast<size_t>(access.terms); ++k) {
        index += static_cast<Word>(access.coef[d][k]) * words_[op.operands[op.first_term() + k]->id];
      }
      if (index >= view.extents[d] && index >= reach(op, view, d)) {
        fail(op, "index " + std::to_string(static_cast<int64_t>(index)) + " is out of bounds for axis " +
                     std::to_string(d) + " with size " + std::to_string(view.extents[d]));
      }
      at += static_cast<int64_t>(index) * static_cast<int64_t>(view.strides[d]);
    }
    if (observer_) observer_->access(op, view.data, at);
    return at;
  }

  static Word load(const Op& op, const char* at) {
    const DType t = op.view()->type.dtype;
    Word word = 0;
    std::memcpy(&word, at, static_cast<size_t>(size_of(t)));
    return canonical(t, word);
  }

  static void store(const Op& op, char* at, Word word) {
    std::memcpy(at, &word, static_cast<size_t>(size_of(op.view()->type.dtype)));
  }

  Exit atomic(const Op& op) {
    const DType t = op.view()->type.dtype;
    char* at = element(op);
    const Word operands[] = {load(op, at), words_[op.operands[0]->id]};
    const Opcode update = opcode_of(op.combiner);
    if (update == Opcode::const_) fail(op, "not an update");
    store(op, at, evaluate_op(update, t, t, operands));
    return Exit::yielded;
  }

  Exit check(const Op& op) {
    if (words_[op.operands[0]->id]) return Exit::yielded;
    const Check& check = *op.check;
    const std::span<Value* const> rest = std::span<Value* const>(op.operands).subspan(1);
    const auto ninfo = static_cast<size_t>(check.ninfo);
    result_.check = ordinals_.at(&op);
    for (Word w : words(rest.first(ninfo))) result_.info.push_back(static_cast<int64_t>(w));
    if (check.declines || check.kind == CheckKind::decline_) return stop(Outcome::declined);
    if (check.has_state) result_.results = words(rest.subspan(ninfo));
    return stop(Outcome::failed);
  }

  Exit for_loop(const Op& op) {
    const int64_t lower = i64(op.operands[0]), upper = i64(op.operands[1]), step = i64(op.operands[2]);
    if (step == 0) fail(op, "a step of zero");
    const Block& body = *op.blocks[0];
    const std::span<Value* const> args = body.args;
    std::vector<Word> carried = words(std::span<Value* const>(op.operands).subspan(3));
    const uint64_t trips = trip_count(lower, upper, step);
    for (uint64_t k = 0; k < trips; ++k) {
      if (observer_) observer_->iteration(op, k, trips);
      words_[args[0]->id] = static_cast<Word>(lower) + k * static_cast<Word>(step);
      bind(args.subspan(1), carried);
      const Exit exit = block(body);
      if (exit == Exit::stopped) return exit;
      carried = leaving_;
      if (exit == Exit::broke) break;
    }
    if (observer_) observer_->left(op);
    bind(op.results, carried);
    return Exit::yielded;
  }

  Exit while_loop(const Op& op) {
    leaving_ = words(op.operands);
    for (uint64_t k = 0;; ++k) {
      if (observer_) observer_->iteration(op, k, 0);
      bind(op.blocks[0]->args, leaving_);
      const Exit exit = block(*op.blocks[0]);
      if (exit == Exit::stopped) return exit;
      if (exit == Exit::broke) break;
    }
    if (observer_) observer_->left(op);
    bind(op.results, leaving_);
    return Exit::yielded;
  }

  const Graph& graph_;
  uint64_t fuel_;
  EvalObserver* observer_;
  std::vector<Word> words_;
  std::vector<View> views_;
  std::map<int32_t, Buffer> buffers_;  // by slot
  std::vector<Word> leaving_;
  std::unordered_map<const Op*, int32_t> ordinals_;
  EvalResult result_;
};

}  // namespace

EvalResult evaluate(const Graph& graph, std::span<const Word> args, uint64_t fuel, EvalObserver* observer) {
  return Evaluator(graph, args, fuel, observer).run();
}

}  // namespace appy::ir
