// Columns: workers side by side in a block, of which each has every kColumns-th thread. Where columns are changed by
// their sums and rows are few, a thread has all of its rows in flight at once, and keeps in registers what several
// loops over the rows load.
#include <algorithm>

#include "gpu/expressions.h"
#include "gpu/writer.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::gpu {

using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

/// A block is kColumns workers side by side. All of its threads go through the same code, whether there are iterations
/// for all columns or not: those without do the last one once more and store nothing.
void Writer::along_columns(const Op& op) {
  level_ = Level::worker;
  columns_ = true;
  const std::string n = declare_trips(op), w = names_.fresh("", "w"), mine = names_.fresh("", "mine"),
                    k = names_.fresh("", "k");
  open("for (i64 " + w + " = (i64)blockIdx.x * kColumns; " + w + " < " + n + "; " + w +
       " += (i64)gridDim.x * kColumns)");
  loops_.push_back(&op);
  put("const bool " + mine + " = " + w + " + threadIdx.x % kColumns < " + n + ";");
  put("const i64 " + k + " = " + mine + " ? " + w + " + threadIdx.x % kColumns : " + n + " - 1;");
  declare_variable(op, k);
  mine_ = mine;
  elected_ = mine + " && threadIdx.x < kColumns";
  for (const Op* inner = op.blocks[0]->first; inner; inner = inner->next) {
    all_rows_ |= options_.shape.rows > 0 && inner->mapping == Mapping::lanes && passes::writes(*inner);
  }
  find_kept(op);
  block(*op.blocks[0]);
  all_rows_ = false;
  loops_.pop_back();
  close();
  columns_ = false;
}

/// May the rows of a thread be in flight together? Then the loop is written out for all of them.
bool Writer::takes_all_rows(const Op& lanes) const {
  constexpr int most_ops = 32;
  if (!all_rows_ || lanes.code != Opcode::for_ || lanes.mapping != Mapping::lanes) return false;
  int ops = 0;
  bool plain = true;
  ir::walk(*lanes.blocks[0], [&](const Op& op) {
    ++ops;
    plain &= ir::is_pure(op.code) || op.code == Opcode::load_ || op.code == Opcode::store_ || op.code == Opcode::if_ ||
             op.code == Opcode::yield_;
  });
  return plain && ops <= most_ops;
}

/// Loads of one element in several loops over the rows, with no store to its array between them.
void Writer::find_kept(const Op& columns) {
  struct Loaded {
    const Op *load, *loop;
  };
  std::vector<Loaded> known;
  const auto forget = [&](const Op& op) {
    const auto one = [&](const Op& access) {
      if (!passes::is_access(access) || access.code == Opcode::load_) return;
      std::erase_if(known, [&](const Loaded& k) { return graph_.may_alias || k.load->view() == access.view(); });
    };
    one(op);
    for (ir::Block* inner : op.blocks) ir::walk(*inner, one);
  };
  for (const Op* loop = columns.blocks[0]->first; loop; loop = loop->next) {
    if (!takes_all_rows(*loop)) {
      forget(*loop);
      continue;
    }
    for (const Op* op = loop->blocks[0]->first; op; op = op->next) {
      forget(*op);
      if (op->code != Opcode::load_) continue;
      const auto found = std::find_if(known.begin(), known.end(), [&](const Loaded& k) {
        return k.loop != loop && passes::count_alike(*loop, *k.loop) &&
               passes::same_element_in(*k.load, *k.loop, *op, *loop);
      });
      if (found == known.end()) {
        known.push_back({op, loop});
      } else {
        auto& name = keeps_[found->load];
        if (name.empty()) name = names_.fresh("", "kept");
        kept_[op] = name;
      }
    }
  }
}

/// A loop over the rows of a column, of which a thread has at most so many.
void Writer::along_all_rows(const Op& op, const std::string& n) {
  const std::string k = names_.fresh("", "k");
  row_ = names_.fresh("", "u");
  for (const Op* load = op.blocks[0]->first; load; load = load->next) {
    const auto keeps = keeps_.find(load);
    if (keeps == keeps_.end()) continue;
    put(std::string(type_of(load->result()->type.dtype)) + " " + keeps->second + "[" +
        std::to_string(options_.shape.rows) + "] = {};");
  }
  open("_Pragma(\"unroll\") for (int " + row_ + " = 0; " + row_ + " < " + std::to_string(options_.shape.rows) + "; ++" +
       row_ + ")");
  put("const i64 " + k + " = threadIdx.x / kColumns + " + row_ + " * (kBlock / kColumns);");
  open("if (" + (passes::writes(op) ? mine_ + " && " : "") + k + " < " + n + ")");
  loops_.push_back(&op);
  declare_variable(op, k);
  if (keeps_last(op)) put(at_ + " = " + k + ";");
  block(*op.blocks[0]);
  loops_.pop_back();
  close();
  close();
}

/// Rows of a column that a thread changes, several at a time: no load of the next one moves in front of a store by
/// itself. Declares where the rest begins.
void Writer::rows_together(const Op& op, const std::string& k, const std::string& n) {
  constexpr int kTogether = 4;
  const std::string step = "(kBlock / kColumns)", all = std::to_string(kTogether),
                    but_one = std::to_string(kTogether - 1);
  put("i64 " + k + " = threadIdx.x / kColumns;");
  open(not_unrolled(true) + "for (; " + mine_ + " && " + k + " < " + n + " - " + but_one + " * " + step + "; " + k +
       " += " + all + " * " + step + ")");
  loops_.push_back(&op);
  std::vector<Names::Scope> copies = declare_copies(op, kTogether, k, " * " + step);
  side_by_side(op, nullptr, copies, [&](const Op& each) { statement(each); });
  loops_.pop_back();
  close();
}

/// A load, which may be of what a loop over rows has in registers.
void Writer::load(const Op& op) {
  const auto kept = kept_.find(&op), keeps = keeps_.find(&op);
  define(*op.result(), kept == kept_.end() ? loaded(op) : kept->second + "[" + row_ + "]");
  if (keeps != keeps_.end()) put(keeps->second + "[" + row_ + "] = " + names_.of(*op.result()) + ";");
}

}  // namespace appy::gpu
