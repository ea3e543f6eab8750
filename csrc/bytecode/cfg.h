// The control-flow graph of a stretch of bytecode: basic blocks, natural loops, reachability. Loops are found from
// dominators and back edges, never from instruction patterns.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bytecode/bytecode.h"

namespace appy::bytecode {

/// Node numbers: blocks first, then one virtual node a way to leave: the end of the stretch, each return. A loop's back
/// edges go to a virtual node of their own (`next`), so that the edges of `succs` form a DAG.
struct Node {
  enum class Kind : uint8_t { block, end, ret, next } kind = Kind::block;
  int first = 0, last = 0;  // block: instructions [first, last]; ret: both the return instruction
  std::vector<int> succs;   // block: fall-through first, then the jump's target
  std::vector<int> preds;
  int order = 0;  // position in reverse postorder of the DAG
  int loop = -1;  // innermost loop that contains it, or -1
  bool reachable = false;
};

struct NaturalLoop {
  int header = 0;  // its first block
  int next = 0;    // virtual node of its back edges
  int parent = -1;
  std::vector<bool> body;  // by node; blocks that only raise, or only pop and leave, belong to the loop they follow
  std::vector<int> exits;  // nodes outside that edges from the body enter, in reverse postorder
};

class Cfg {
 public:
  /// Blocks of instructions [first, last), entered at `first`. A jump out of the stretch, or past its end, goes to the
  /// end node where it lands at `last` (possibly over unconditional jumps, or in a copy of the instructions there that
  /// the compiler made); else `fault` names it.
  /// `one_return`: all returns lead to one virtual node (functions that are inlined). `last_line`: the source line
  /// where the statement ends, where it is known; pieces of it may stand behind the stretch.
  Cfg(std::span<const Instruction> code, int first, int last, bool one_return = false, int last_line = 0);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<NaturalLoop>& loops() const { return loops_; }
  int entry() const { return entry_; }
  int end() const { return end_; }
  /// The loop with this header, or -1.
  int loop_of_header(int node) const { return header_loop_[static_cast<size_t>(node)]; }
  /// Is there a path, possibly empty, from one node to another in the DAG?
  bool reaches(int from, int to) const { return reach_[static_cast<size_t>(from)][static_cast<size_t>(to)]; }
  /// Empty, or why the stretch cannot be structured.
  const std::string& fault() const { return fault_; }

 private:
  void find_blocks(int first, int last);
  int resolve(int target, int first, int last);
  bool copy_of_end(int target, int last) const;
  void find_order();
  void find_loops();
  void absorb();
  void close();

  std::span<const Instruction> code_;
  std::vector<Node> nodes_;
  std::vector<NaturalLoop> loops_;
  std::vector<int> header_loop_;
  std::vector<int> rpo_;
  std::vector<std::vector<bool>> reach_;
  int entry_ = 0, end_ = 0;
  bool one_return_ = false;
  int last_line_ = 0;
  std::string fault_;
};

}  // namespace appy::bytecode
