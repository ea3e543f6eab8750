// One sweep over a matrix that one nest writes element by element and the next one sums down its columns, for devices:
// a worker for each column, which goes down it. The elements are made where they are added up; the matrix is stored
// once and no longer read again, and nobody waits between the two nests. A sweep for a CPU (sweep.cpp) goes by blocks
// of columns.
//
// Where there are few columns the sums keep few workers busy, but elements can be made by all: a second version is left
// as it was.
#include <string>
#include <vector>

#include "ir/builder.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/producer.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Columns, at least: eight side by side are a block, and a device has some hundred multiprocessors.
constexpr int64_t kColumns = 1024;

class Sweeper {
 public:
  explicit Sweeper(ir::Graph& graph) : graph_(graph) {}

  bool run(Block& block) {
    bool changed = false;
    for (Op *op = block.first, *next; op; op = next) {
      next = op->next;
      Producer producer;
      if (read_producer(*op, producer)) {
        if (Op* sums = loop_behind(producer); sums && fits(producer, *sums)) {
          next = sums->next;
          merge(producer, *sums);
          changed = true;
          continue;
        }
      }
      if (is_for(*op) && has_permission(*op)) continue;
      for (Block* inner : op->blocks) changed |= run(*inner);
    }
    return changed;
  }

 private:
  /// for j in [0, columns): for i in [0, rows), in any order: one load of [i, j].
  bool fits(const Producer& p, const Op& sums) {
    const ir::Loop &x = *p.loop->loop, &y = *sums.loop;
    if (!has_permission(sums) || !counts_all(sums) || x.annotated != y.annotated || y.collapse != 1) return false;
    if (x.schedule != y.schedule || x.chunk != y.chunk || x.threads != y.threads) return false;
    const auto few = constant(*p.columns());
    if (few && *few < kColumns) return false;
    const Op* load = nullptr;
    bool plain = true;
    ir::walk(body_of(sums), [&](Op& op) {
      plain &= op.code != Opcode::check_ && op.code != Opcode::break_ && op.code != Opcode::continue_;
      if (!is_access(op)) return;
      if (op.code != Opcode::load_) plain &= !p.reads.contains(op.view());
      if (op.view() != p.view()) return;
      plain &= op.code == Opcode::load_ && !load;
      load = &op;
    });
    return plain && load && covers(p, sums, *load);
  }

  /// The load takes each element that the producer makes, once.
  bool covers(const Producer& p, const Op& sums, const Op& load) {
    const Op* rows = load.parent->owner;
    if (!rows || !is_for(*rows) || rows->parent != &body_of(sums)) return false;
    if (!has_permission(*rows) || constant(*rows->operands[0]) != 0 || constant(*rows->operands[2]) != 1) return false;
    if (!is_row(load, 0, *induction(*rows), 1, 0) || !is_row(load, 1, *induction(sums), 1, 0)) return false;
    Ranges ranges(graph_);
    return equal(ranges, *rows->operands[1], *p.rows(), sums) && equal(ranges, *sums.operands[1], *p.columns(), sums);
  }

  void merge(const Producer& p, Op& sums) {
    remark(graph_, ir::Severity::note, "sweep_device", p.loop->loc,
           "the loop at " + line_of(graph_, p.loop->loc) + " runs inside the one at " + line_of(graph_, sums.loc) +
               ", which sums its columns, where there are " + std::to_string(kColumns) + " or more");
    Builder b(graph_);
    b.set_loc(sums.loc);
    b.set_before(&sums);
    Op* swept = &sums;
    p.loop->parent->remove(p.loop);
    if (!constant(*p.columns())) {
      swept = Copier(graph_).copy(sums);
      Op* choice = make_versions(b, sums, b.op(Opcode::ge_, {p.columns(), b.i64(kColumns)}));
      choice->blocks[1]->insert_before(&sums, p.loop);
      choice->blocks[0]->append(swept);
      b.set_block(choice->blocks[0]);
      b.yield({});
    }
    Op *load = nullptr, *store = nullptr;
    ir::walk(body_of(*swept), [&](Op& op) {
      if (is_access(op) && op.view() == p.view()) load = &op;
    });
    Block& body = *load->parent;
    Value* element = copy_element(graph_, p, *induction(*body.owner), *load, *induction(*swept), *load);
    for (Op* op = body.first; op; op = op->next) {
      if (op->code == Opcode::store_ && op->view() == p.view()) store = op;
    }
    // Loads that stand behind a store would wait for it.
    body.remove(store);
    body.insert_before(body.last, store);
    std::vector<Value*> to(graph_.value_count());
    to[load->result()->id] = element;
    ir::replace_uses(graph_, to);
    body.remove(load);
  }

  ir::Graph& graph_;
};

}  // namespace

bool sweep_device(ir::Graph& graph) { return !graph.may_alias && Sweeper(graph).run(*graph.body); }

}  // namespace appy::passes
