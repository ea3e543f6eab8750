#include "passes/repeat.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "passes/loops.h"

namespace appy::passes {

using ir::Block;
using ir::Mapping;
using ir::Op;
using ir::Opcode;

namespace {

bool is_repeatable(const Op& loop) {
  if (!is_for(loop) || loop.mapping != Mapping::threads || loop.loop->tiles) return false;
  for (const ir::Carried& c : loop.loop->carried) {
    if (c.combiner == ir::Combiner::last_) return false;
  }
  const Op* around = ir::enclosing_loop(*loop.parent);
  if (!around) return false;
  for (const Op* at = around; at; at = ir::enclosing_loop(*at->parent)) {
    if (at->mapping != Mapping::none) return false;
  }
  bool fits = true;
  std::vector<const ir::Value*> loaded, stored;
  ir::walk(body_of(loop), [&](const Op& op) {
    if (op.code == Opcode::load_) {
      loaded.push_back(op.view());
    } else if (op.code == Opcode::store_) {
      stored.push_back(op.view());
    } else {
      fits &= ir::is_pure(op.code) || op.code == Opcode::if_ || op.code == Opcode::yield_;
    }
  });
  return fits && std::none_of(stored.begin(), stored.end(), [&](const ir::Value* view) {
           return std::find(loaded.begin(), loaded.end(), view) != loaded.end();
         });
}

/// Those that may be repeated, in walk order.
std::vector<Op*> repeatable(const ir::Graph& graph) {
  std::vector<Op*> found;
  if (graph.may_alias) return found;
  ir::walk(*graph.body, [&](Op& op) {
    if (is_repeatable(op)) found.push_back(&op);
  });
  return found;
}

/// How often all wait for each other, in the text: where repeated loops are repeated, and where they are not.
struct Meetings {
  int64_t repeated = 0, apart = 0;
};

/// The waits of all at this op itself: a barrier, or what combines the results of a distributed loop.
Meetings meetings_at(const Op& op) {
  const bool combines = op.code == Opcode::barrier_ || (op.mapping != Mapping::none && !op.results.empty());
  if (!combines || op.mapping == Mapping::lanes) return {};
  return {op.mapping != Mapping::repeated, 1};
}

void count(const Block& block, Meetings& all) {
  for (const Op* op = block.first; op; op = op->next) {
    const Meetings here = meetings_at(*op);
    all.repeated += here.repeated;
    all.apart += here.apart;
    if (is_loop(*op) && op->mapping != Mapping::none) continue;
    for (const Block* inner : op->blocks) count(*inner, all);
  }
}

/// Each iteration of the loop around comes by a wait of all, where it may be told to leave.
bool is_told_around(Op& loop) {
  Block& around = body_of(*ir::enclosing_loop(*loop.parent));
  bool told = false, skips = false;
  for (const Op* op = around.first; op; op = op->next) told |= meetings_at(*op).repeated != 0;
  ir::walk(around, [&](const Op& op) { skips |= op.code == Opcode::continue_; });
  return told && !skips;
}

}  // namespace

bool repeat_loops(ir::Graph& graph, const std::function<bool(ir::Graph&)>& insert_barriers) {
  constexpr size_t most = 16;  // loops that are tried
  const std::vector<Op*> loops = repeatable(graph);
  std::vector<bool> chosen(std::min(loops.size(), most));
  // The waits with these loops repeated, or nothing where one of them may not be.
  const auto tried = [&](const std::vector<bool>& which) -> std::optional<Meetings> {
    const auto copy = ir::clone(graph);
    std::vector<Op*> copied = repeatable(*copy), repeated;
    for (size_t k = 0; k < which.size(); ++k) {
      if (!which[k]) continue;
      copied[k]->mapping = Mapping::repeated;
      repeated.push_back(copied[k]);
    }
    insert_barriers(*copy);
    if (!std::all_of(repeated.begin(), repeated.end(), [](Op* loop) { return is_told_around(*loop); })) return {};
    Meetings all;
    count(*copy->body, all);
    return all;
  };
  if (chosen.empty()) return false;
  Meetings least = *tried(chosen);
  const int64_t apart = least.apart;
  for (size_t k = 0; k < chosen.size(); ++k) {
    chosen[k] = true;
    const auto now = tried(chosen);
    chosen[k] = now && now->repeated < least.repeated && now->apart <= apart;
    if (chosen[k]) least = *now;
  }
  for (size_t k = 0; k < chosen.size(); ++k) {
    if (chosen[k]) loops[k]->mapping = Mapping::repeated;
  }
  return std::find(chosen.begin(), chosen.end(), true) != chosen.end();
}

}  // namespace appy::passes
