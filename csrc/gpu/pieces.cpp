// Neighbouring iterations of a distributed loop as one thread's: what they load and store side by side in memory is one
// access of 16 bytes, where arrays are aligned to that. Narrow types need it: of single elements too few are in flight.
#include <algorithm>

#include "gpu/expressions.h"
#include "gpu/writer.h"
#include "passes/affine.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::gpu {

using ir::Layout;
using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// More are more text and registers than they are worth.
constexpr int kMostNeighbours = 8;
/// Operations of a plane's body that pieces are for, and of all the pieces of a thread that are on their way.
constexpr int kMostOfPlane = 24, kMostInFlight = 96;

/// Are the elements of neighbouring iterations neighbours in memory, in the same order?
bool are_neighbours(const Op& access, const Op& loop) {
  const Value& i = *passes::induction(loop);
  if (!passes::runs_along(access, i)) return false;
  for (size_t d = 0; d < access.access->offset.size(); ++d) {
    for (const auto& [term, coef] : passes::row(access, d).terms) {
      if (term != &i && !ir::defined_outside(*term, *loop.blocks[0])) return false;
    }
  }
  return true;
}

/// The first of the accesses of `count` neighbours, from the loop's first iteration on, is at a multiple of `count`.
bool begins_even(const Op& access, const Op& loop, int64_t lower, int count) {
  passes::Affine sum = passes::row(access, access.access->offset.size() - 1);
  sum.add(*passes::induction(loop), -1);
  sum.constant += lower;
  return sum.constant % count == 0 &&
         std::all_of(sum.terms.begin(), sum.terms.end(), [&](const auto& term) { return term.second % count == 0; });
}

/// Rows of the plane load elements of each other's: then a thread has rows, of which it loads those once.
bool shares_rows(const Op& along) {
  bool found = false;
  ir::walk(*along.blocks[0], [&](const Op& a) {
    if (a.code != Opcode::load_) return;
    ir::walk(*along.blocks[0], [&](const Op& b) {
      if (b.code != Opcode::load_ || a.view() != b.view()) return;
      for (size_t d = 0; d + 1 < a.access->offset.size(); ++d) {
        passes::Affine apart = passes::row(a, d);
        apart.add(passes::row(b, d), -1);
        found |= apart.is_constant() && apart.constant != 0;
      }
    });
  });
  return found;
}

/// Operations of a body, as the text grows with them.
int operations_of(const Op& loop) {
  int operations = 0;
  ir::walk(*loop.blocks[0], [&](const Op&) { ++operations; });
  return operations;
}

/// A function or a quotient of float64: several at once are more registers and branches than the loads are worth. H200,
/// softmax of rows of 1024: 331 us, with two of each at once 561.
bool has_long_operations(const Op& loop) {
  bool found = false;
  ir::walk(*loop.blocks[0], [&](const Op& op) {
    if (!ir::is_pure(op.code) || op.results.empty() || op.result()->type.dtype != ir::DType::f64_) return;
    found |= !passes::is_cheap(op);
  });
  return found;
}

/// One of the loops writes what the other one touches.
bool share_written(const Op& a, const Op& b) {
  bool found = false;
  ir::walk(*a.blocks[0], [&](const Op& x) {
    if (!passes::is_access(x)) return;
    ir::walk(*b.blocks[0], [&](const Op& y) {
      found |= passes::is_access(y) && x.view() == y.view() && (x.code != Opcode::load_ || y.code != Opcode::load_);
    });
  });
  return found;
}

Mapping kind_of(const Op& loop) { return loop.mapping == Mapping::repeated ? Mapping::threads : loop.mapping; }

}  // namespace

/// Where the array begins, and how far its rows are apart, as bits: 0 where all are aligned. Empty where the kernel's
/// beginning does not know. `flat` is the test of a nest that goes along all rows as if they were one, if there is one.
std::string Writer::alignment_of(const Value& view, const std::string* flat) const {
  const size_t rank = static_cast<size_t>(view.type.rank);
  const std::string size = std::to_string(ir::size_of(view.type.dtype));
  const auto scaled = [&](const std::string& elements) { return "(u64)(" + elements + ") * " + size; };
  const std::string name = view.op ? "" : names_.known(view);
  const auto rows = [&](const std::string& elements) {
    if (!flat) return " | " + scaled(elements);
    return flat->empty() ? "" : " | (" + *flat + " ? 0 : " + scaled(elements) + ")";
  };
  if (!view.op) {
    std::string bits = "(u64)" + name;
    if (rank > 1 && view.type.layout == Layout::c) bits += rows(name + "_n" + std::to_string(rank - 1));
    for (size_t d = 0; view.type.layout == Layout::inner && d + 1 < rank; ++d) {
      bits += " | (u64)" + name + "_s" + std::to_string(d);
    }
    return bits;
  }
  const size_t number = array_of_.at(view.op), arrays = code_.arrays.size(), first = code_.words - 2 * arrays;
  std::string bits = "p.w[" + std::to_string(first + number) + "]";
  const ArrayUse::Owner owner = code_.arrays[number].owner;
  if (owner == ArrayUse::Owner::worker || owner == ArrayUse::Owner::thread)
    bits += " | " + scaled("p.w[" + std::to_string(first + arrays + number) + "]");
  if (rank == 1) return bits;
  const std::string width = known_number(*view.op->operands[ir::by_speed(view.type, 0)]);
  return width.empty() ? "" : bits + rows(width);
}

/// Is the access one with those of the `count` - 1 iterations behind?
bool Writer::lies_in_piece(const Op& access, const Op& loop, int count, const std::set<const Op*>& chain) const {
  const Value& view = *access.view();
  return access.parent == loop.blocks[0] && !chain.count(&access) && !is_unaligned(view) &&
         !alignment_of(view, nullptr).empty() && are_neighbours(access, loop) &&
         begins_even(access, loop, *passes::constant(*loop.operands[0]), count) &&
         (access.code == Opcode::load_ || !stays(access));
}

/// As many as a piece has of the narrowest elements, and two of the widest; 1 where pieces do not pay.
int Writer::most_neighbours(const Op& loop) const {
  const auto lower = passes::constant(*loop.operands[0]), step = passes::constant(*loop.operands[2]);
  if (loop.mapping == Mapping::repeated || !lower || step != 1 || !can_interleave(loop, nullptr)) return 1;
  int least = 0, largest = 0;
  ir::walk(*loop.blocks[0], [&](const Op& op) {
    if (!passes::is_access(op) || !are_neighbours(op, loop)) return;
    const int bytes = ir::size_of(op.view()->type.dtype);
    least = least ? std::min(least, bytes) : bytes;
    largest = std::max(largest, bytes);
  });
  const bool plane =
      kind_of(loop) == Mapping::threads && loop.parent->owner && loop.parent->owner->mapping == loop.mapping;
  if (!least || only_copies(loop) || has_long_operations(loop)) return 1;
  if (plane && (shares_rows(loop) || operations_of(loop) > kMostOfPlane)) return 1;
  return std::min({options_.shape.piece / least, 2 * options_.shape.piece / largest, kMostNeighbours});
}

/// As many as all that is stored along the loop, and most that is loaded, are in pieces for; 1 where no number is. What
/// the loop writes is touched in pieces only.
int Writer::neighbours_up_to(const Op& loop, int most) const {
  const std::set<const Op*> chain = chain_of(loop);
  for (int count = most; count > 1; count /= 2) {
    int in_pieces = 0, apart = 0;
    bool fits = true;
    ir::walk(*loop.blocks[0], [&](const Op& op) {
      if (!passes::is_access(op)) return;
      if (lies_in_piece(op, loop, count, chain)) {
        ++in_pieces;
        return;
      }
      const bool along = are_neighbours(op, loop);
      apart += along;
      fits &= !(along && op.code != Opcode::load_) && !passes::writes_to(*loop.blocks[0], *op.view());
    });
    if (fits && in_pieces > 2 * apart) return count;
  }
  return 1;
}

/// Decides for all loops. Those that count alike and share what one of them writes take as many each: between them an
/// element stays with its thread and needs no barrier.
void Writer::find_pieces() {
  if (!options_.shape.piece) return;
  std::vector<std::pair<const Op*, int>> loops;
  ir::walk(*graph_.body, [&](const Op& op) {
    if (op.code != Opcode::for_) return;
    const Op* around = ir::enclosing_loop(*op.parent);
    const bool lanes = op.mapping == Mapping::lanes && around && around->mapping != Mapping::columns;
    if (!lanes && kind_of(op) != Mapping::threads) return;
    bool innermost = true;
    ir::walk(*op.blocks[0], [&](const Op& inner) { innermost &= inner.mapping != op.mapping; });
    if (innermost) loops.emplace_back(&op, neighbours_up_to(op, most_neighbours(op)));
  });
  for (bool settled = false; !settled;) {
    settled = true;
    for (auto& [loop, count] : loops) {
      for (const auto& [other, bound] : loops) {
        if (bound >= count || kind_of(*loop) != kind_of(*other) || !share_written(*loop, *other)) continue;
        count = neighbours_up_to(*loop, bound);
        settled = false;
      }
    }
  }
  for (const auto& [loop, count] : loops) {
    if (count == 1) continue;
    neighbours_[loop] = count;
    const std::set<const Op*> chain = chain_of(*loop);
    const auto flat = flat_.find(loop);
    for (const Op* op = loop->blocks[0]->first; op; op = op->next) {
      if (!passes::is_access(*op) || !lies_in_piece(*op, *loop, count, chain)) continue;
      const Value& view = *op->view();
      const int bytes = std::min(count * ir::size_of(view.type.dtype), options_.shape.piece);
      const std::string bits = alignment_of(view, flat == flat_.end() ? nullptr : &flat->second);
      piece_alignments_.insert("((" + bits + ") & " + std::to_string(bytes - 1) + ") == 0");
      pieces_[op] = count;
    }
  }
}

int Writer::neighbours(const Op& loop) const {
  const auto found = neighbours_.find(&loop);
  return found == neighbours_.end() ? 1 : found->second;
}

/// As many as keep enough bytes on their way, of a body that stays small.
int Writer::pieces_in_flight(const Op& loop) const {
  int deep = 4;
  while (deep > 1 && deep * neighbours(loop) * operations_of(loop) > kMostInFlight) deep /= 2;
  return deep;
}

std::string Writer::pieces_parameter() const {
  std::string text;
  for (const std::string& test : piece_alignments_) {
    text += (text.empty() ? "  const bool aligned_pieces = " : " && ") + test;
  }
  return text.empty() ? text : text + ";\n";
}

void Writer::in_pieces(const Op& loop, const std::string& first, const std::string& step, const std::string& n,
                       int deep, bool enough, std::vector<Names::Scope>* rows) {
  const int count = neighbours(loop);
  const std::string wide = std::to_string(count), k = names_.fresh("", "k");
  const auto once = [&](const Op& op) { statement(op); };
  const auto steps = [&](int pieces) { return std::to_string(pieces * count) + " * " + step; };
  open("if (aligned_pieces)");
  put("i64 " + k + " = " + first + " * " + wide + ";");
  loops_.push_back(&loop);
  for (const int pieces : deep > 1 ? std::vector<int>{deep, 1} : std::vector<int>{1}) {
    const std::string before = pieces > 1 ? " + " + steps(pieces - 1) : "";
    open(not_unrolled(enough || options_.shape.unroll == 1) + "for (; " + k + before + " + " +
         std::to_string(count - 1) + " < " + n + "; " + k + " += " + steps(pieces) + ")");
    std::vector<std::string> at;
    for (int piece = 0; piece < pieces; ++piece) {
      const std::string begin = piece ? k + " + " + steps(piece) : k;
      for (int c = 0; c < count; ++c)
        at.push_back(c ? "(" + begin + " + " + std::to_string(c) + ")" : "(" + begin + ")");
    }
    std::vector<Names::Scope> copies = declare_neighbours(loop, at, rows);
    in_piece_ = count;
    side_by_side(loop, nullptr, copies, once);
    in_piece_ = 1;
    close();
  }
  open(not_unrolled(true) + "for (; " + k + " < " + n + "; ++" + k + ")");
  if (rows) {
    declare_variable(loop, k);
    side_by_side(loop, nullptr, *rows, once);
  } else {
    // What is behind has names of its own for the same values.
    Names::Scope alone;
    names_.enter(&alone);
    names_.bind(*passes::induction(loop), names_.fresh(passes::induction(loop)->name));
    declare_variable(loop, k);
    block(*loop.blocks[0]);
    names_.enter(nullptr);
  }
  loops_.pop_back();
  close();
  close();
}

/// The loop's variable at each of these iterations, in each of the rows.
std::vector<Names::Scope> Writer::declare_neighbours(const Op& loop, const std::vector<std::string>& at,
                                                     const std::vector<Names::Scope>* rows) {
  std::vector<Names::Scope> first(at.size());
  for (size_t c = 0; c < at.size(); ++c) {
    names_.enter(&first[c]);
    names_.bind(*passes::induction(loop), names_.fresh(passes::induction(loop)->name));
    declare_variable(loop, at[c]);
  }
  names_.enter(nullptr);
  if (!rows) return first;
  std::vector<Names::Scope> copies;
  for (const Names::Scope& row : *rows) {
    for (const Names::Scope& variable : first) {
      copies.push_back(row);
      copies.back().insert(variable.begin(), variable.end());
    }
  }
  return copies;
}

void Writer::pieces(const Op& access, std::vector<Names::Scope>& copies) {
  note_line(access);
  const auto count = static_cast<size_t>(pieces_.at(&access));
  const bool load = access.code == Opcode::load_;
  for (size_t first = 0; first < copies.size(); first += count) {
    std::string values;
    for (size_t c = first; c < first + count; ++c) {
      names_.enter(&copies[c]);
      values += (values.empty() ? "" : ", ") + (load ? names_.of(*access.result()) : argument(*access.operands[0]));
    }
    names_.enter(&copies[first]);
    if (load) put(std::string(type_of(access.result()->type.dtype)) + " " + values + ";");
    put((load ? "load_pieces(&" : "store_pieces(&") + element(access) + ", " + values + ");");
  }
  names_.enter(nullptr);
}

}  // namespace appy::gpu
