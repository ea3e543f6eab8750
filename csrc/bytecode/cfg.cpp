#include "bytecode/cfg.h"

#include <algorithm>
#include <functional>
#include <map>

namespace appy::bytecode {
namespace {

bool only_pops(std::span<const Instruction> code, const Node& n) {
  for (int i = n.first; i <= n.last; ++i) {
    const Op op = code[static_cast<size_t>(i)].op;
    if (op != Op::pop_top_ && op != Op::nop_ && op != Op::jump_) return false;
  }
  return true;
}

}  // namespace

Cfg::Cfg(std::span<const Instruction> code, int first, int last, bool one_return, int last_line)
    : code_(code), one_return_(one_return), last_line_(last_line) {
  find_blocks(first, last);
  if (!fault_.empty()) return;
  find_order();
  find_loops();
  if (!fault_.empty()) return;
  absorb();
  close();
}

// Does the code at `target` do what that at `last` does, a short way out of the function? Where the compiler has copied
// it, it knows better which variables are bound; to return a constant is the same wherever it stands.
bool Cfg::copy_of_end(int target, int last) const {
  const auto does_the_same = [](const Instruction& a, const Instruction& b) {
    const bool loads = a.op == Op::load_fast_ && b.op == Op::load_fast_check_;
    return (a.op == b.op || loads) && a.arg == b.arg && a.arg2 == b.arg2;
  };
  bool same_lines = true;
  for (int n = 0; n < 8; ++n, ++target, ++last) {
    if (target >= static_cast<int>(code_.size()) || last >= static_cast<int>(code_.size())) return false;
    const Instruction &a = code_[static_cast<size_t>(target)], &b = code_[static_cast<size_t>(last)];
    if (!does_the_same(a, b)) return false;
    same_lines &= a.position.line == b.position.line;
    const bool constant = n == 1 && code_[static_cast<size_t>(target - 1)].op == Op::load_const_;
    if (is_terminal(a)) return same_lines || (constant && a.op == Op::return_value_);
    if (is_jump(a.op)) return false;
  }
  return false;
}

// A jump's target: an instruction inside the stretch, or `last` for its end.
int Cfg::resolve(int target, int first, int last) {
  const auto follow = [&](int at) {
    for (int steps = 0; steps < 16 && at < static_cast<int>(code_.size()); ++steps) {
      const Instruction& i = code_[static_cast<size_t>(at)];
      if (i.op == Op::jump_) {
        at = i.arg;
      } else if (i.op == Op::nop_) {
        ++at;
      } else {
        break;
      }
    }
    return at;
  };
  if (target >= first && target < last) return copy_of_end(target, last) ? last : target;
  if (target == last || follow(target) == follow(last) || copy_of_end(target, last)) return last;
  // The compiler may put a piece of the statement behind what follows it.
  if (target > last && target < static_cast<int>(code_.size())) {
    int low = 0, high = last_line_;
    for (int i = first; i < last; ++i) {
      const int line = code_[static_cast<size_t>(i)].position.line;
      if (!line) continue;
      low = low ? std::min(low, line) : line;
      high = std::max(high, line);
    }
    const int line = code_[static_cast<size_t>(target)].position.line;
    if (line && line >= low && line <= high) return target;
  }
  fault_ =
      "a jump to line " +
      std::to_string(target < static_cast<int>(code_.size()) ? code_[static_cast<size_t>(target)].position.line : 0) +
      ", outside of the statement";
  return last;
}

void Cfg::find_blocks(int first, int last) {
  const size_t count = code_.size();
  std::vector<bool> leader(count + 1, false);
  std::vector<bool> live(count, false);
  std::vector<int> target(count, -1);
  std::vector<int> work{first};
  leader[static_cast<size_t>(first)] = true;
  // Blocks that control does not reach (handlers, mostly) stay out.
  while (!work.empty()) {
    int at = work.back();
    work.pop_back();
    while (at != last && at < static_cast<int>(count) && !live[static_cast<size_t>(at)]) {
      const size_t k = static_cast<size_t>(at);
      live[k] = true;
      const Instruction& i = code_[k];
      if (is_jump(i.op)) {
        target[k] = resolve(i.arg, first, last);
        if (target[k] < static_cast<int>(count)) leader[static_cast<size_t>(target[k])] = true;
        leader[k + 1] = true;
        if (target[k] != last) work.push_back(target[k]);
        if (i.op == Op::jump_) break;
      } else if (is_terminal(i)) {
        leader[k + 1] = true;
        break;
      } else if (at + 1 != last && copy_of_end(at + 1, last)) {
        leader[k + 1] = true;
        target[k] = last;  // falls into the copy
        break;
      }
      ++at;
    }
  }

  std::map<int, int> block_at;
  for (int at = 0; at < static_cast<int>(count);) {
    int stop = at + 1;
    while (stop < static_cast<int>(count) && stop != last && !leader[static_cast<size_t>(stop)] &&
           live[static_cast<size_t>(stop)] == live[static_cast<size_t>(at)]) {
      ++stop;
    }
    if (live[static_cast<size_t>(at)]) {
      block_at[at] = static_cast<int>(nodes_.size());
      Node n;
      n.first = at;
      n.last = stop - 1;
      nodes_.push_back(std::move(n));
    }
    at = stop;
  }
  const int blocks = static_cast<int>(nodes_.size());
  end_ = blocks;
  nodes_.emplace_back().kind = Node::Kind::end;
  block_at[last] = end_;
  entry_ = block_at.count(first) ? block_at[first] : end_;

  for (int b = 0; b < blocks; ++b) {
    const Instruction& i = code_[static_cast<size_t>(nodes_[static_cast<size_t>(b)].last)];
    const int at = nodes_[static_cast<size_t>(b)].last;
    const int jump = target[static_cast<size_t>(at)];
    std::vector<int> succs;
    if (i.op == Op::return_value_ && one_return_ && static_cast<int>(nodes_.size()) > blocks + 1) {
      succs.push_back(blocks + 1);
    } else if (i.op == Op::return_value_) {
      succs.push_back(static_cast<int>(nodes_.size()));
      Node r;
      r.kind = Node::Kind::ret;
      r.first = r.last = at;
      nodes_.push_back(std::move(r));
    } else if (!is_terminal(i)) {
      const bool falls = i.op != Op::jump_ && (jump < 0 || is_jump(i.op));
      if (falls) {
        auto found = block_at.find(at + 1);
        if (found == block_at.end()) {
          fault_ = "control that falls out of the statement";
          return;
        }
        succs.push_back(found->second);
      }
      if (jump >= 0) succs.push_back(block_at[jump]);
    }
    nodes_[static_cast<size_t>(b)].succs = std::move(succs);
  }
}

void Cfg::find_order() {
  std::vector<int> post;
  std::vector<uint8_t> seen(nodes_.size(), 0);
  const std::function<void(int)> visit = [&](int n) {
    seen[static_cast<size_t>(n)] = 1;
    // Reversed, so that the fall-through comes first in reverse postorder.
    const auto& succs = nodes_[static_cast<size_t>(n)].succs;
    for (size_t i = succs.size(); i-- > 0;) {
      if (!seen[static_cast<size_t>(succs[i])]) visit(succs[i]);
    }
    post.push_back(n);
  };
  visit(entry_);
  rpo_.assign(post.rbegin(), post.rend());
  for (size_t i = 0; i < rpo_.size(); ++i) {
    nodes_[static_cast<size_t>(rpo_[i])].order = static_cast<int>(i);
    nodes_[static_cast<size_t>(rpo_[i])].reachable = true;
  }
  for (int n : rpo_) {
    for (int s : nodes_[static_cast<size_t>(n)].succs) nodes_[static_cast<size_t>(s)].preds.push_back(n);
  }
}

void Cfg::find_loops() {
  // Immediate dominators by intersection along the order, until nothing changes.
  std::vector<int> idom(nodes_.size(), -1);
  idom[static_cast<size_t>(entry_)] = entry_;
  const auto order = [&](int n) { return nodes_[static_cast<size_t>(n)].order; };
  for (bool changed = true; changed;) {
    changed = false;
    for (int n : rpo_) {
      if (n == entry_) continue;
      int best = -1;
      for (int p : nodes_[static_cast<size_t>(n)].preds) {
        if (idom[static_cast<size_t>(p)] < 0) continue;
        if (best < 0) {
          best = p;
          continue;
        }
        int q = p;
        while (best != q) {
          while (order(best) > order(q)) best = idom[static_cast<size_t>(best)];
          while (order(q) > order(best)) q = idom[static_cast<size_t>(q)];
        }
      }
      if (best != idom[static_cast<size_t>(n)]) idom[static_cast<size_t>(n)] = best, changed = true;
    }
  }
  const auto dominates = [&](int a, int b) {
    while (order(b) > order(a)) b = idom[static_cast<size_t>(b)];
    return a == b;
  };

  header_loop_.assign(nodes_.size(), -1);
  const int real = static_cast<int>(nodes_.size());
  for (int h : rpo_) {
    std::vector<int> latches;
    for (int p : nodes_[static_cast<size_t>(h)].preds) {
      if (order(p) < order(h)) continue;
      if (!dominates(h, p)) {
        fault_ = "control flow that is entered in two places";
        return;
      }
      latches.push_back(p);
    }
    if (latches.empty()) continue;
    NaturalLoop loop;
    loop.header = h;
    loop.body.assign(static_cast<size_t>(real), false);
    loop.body[static_cast<size_t>(h)] = true;
    std::vector<int> work = latches;
    while (!work.empty()) {
      const int n = work.back();
      work.pop_back();
      if (loop.body[static_cast<size_t>(n)]) continue;
      loop.body[static_cast<size_t>(n)] = true;
      for (int p : nodes_[static_cast<size_t>(n)].preds) work.push_back(p);
    }
    // Headers come in reverse postorder: outer loops are there already.
    for (size_t k = loops_.size(); k-- > 0;) {
      if (loops_[k].body[static_cast<size_t>(h)]) {
        loop.parent = static_cast<int>(k);
        break;
      }
    }
    header_loop_[static_cast<size_t>(h)] = static_cast<int>(loops_.size());
    loops_.push_back(std::move(loop));
  }

  for (NaturalLoop& loop : loops_) {
    loop.next = static_cast<int>(nodes_.size());
    Node next;
    next.kind = Node::Kind::next;
    next.reachable = true;
    nodes_.push_back(std::move(next));
    header_loop_.push_back(-1);
  }
  for (NaturalLoop& loop : loops_) {
    loop.body.resize(nodes_.size(), false);
    for (const NaturalLoop& inner : loops_) {
      if (&inner != &loop && loop.body[static_cast<size_t>(inner.header)])
        loop.body[static_cast<size_t>(inner.next)] = true;
    }
  }
  for (int n = 0; n < real; ++n) {
    for (int& s : nodes_[static_cast<size_t>(n)].succs) {
      const int l = header_loop_[static_cast<size_t>(s)];
      if (l < 0 || !loops_[static_cast<size_t>(l)].body[static_cast<size_t>(n)]) continue;
      s = loops_[static_cast<size_t>(l)].next;
      nodes_[static_cast<size_t>(s)].preds.push_back(n);
    }
  }
}

// Blocks that only raise, and blocks that only pop and jump, stand outside of the natural loop that they leave; they
// are taken in, so that what happens there happens in the loop and different ways out become one.
void Cfg::absorb() {
  const size_t count = nodes_.size();
  for (NaturalLoop& loop : loops_) {
    const Node& header = nodes_[static_cast<size_t>(loop.header)];
    const bool counted = code_[static_cast<size_t>(header.last)].op == Op::for_iter_;
    const size_t exhausted = counted ? static_cast<size_t>(header.succs[1]) : count;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t n = 0; n < count; ++n) {
        const Node& node = nodes_[n];
        if (loop.body[n] || node.kind != Node::Kind::block || !node.reachable || node.preds.empty()) continue;
        const bool inside =
            std::all_of(node.preds.begin(), node.preds.end(), [&](int p) { return loop.body[static_cast<size_t>(p)]; });
        if (!inside || header_loop_[n] >= 0 || n == exhausted) continue;
        const bool raises = std::all_of(node.succs.begin(), node.succs.end(),
                                        [&](int s) { return loop.body[static_cast<size_t>(s)] && s != loop.next; });
        if (raises || (node.succs.size() == 1 && only_pops(code_, node))) loop.body[n] = changed = true;
      }
    }
  }
  for (size_t l = 0; l < loops_.size(); ++l) {
    for (size_t n = 0; n < count; ++n) {
      if (loops_[l].body[n]) nodes_[n].loop = static_cast<int>(l);  // inner loops come later and win
    }
  }
}

void Cfg::close() {
  // Order and reachability of the DAG, the virtual nodes included.
  const size_t count = nodes_.size();
  std::vector<uint8_t> seen(count, 0);
  std::vector<int> post;
  const std::function<void(int)> visit = [&](int n) {
    seen[static_cast<size_t>(n)] = 1;
    const auto& succs = nodes_[static_cast<size_t>(n)].succs;
    for (size_t i = succs.size(); i-- > 0;) {
      if (!seen[static_cast<size_t>(succs[i])]) visit(succs[i]);
    }
    post.push_back(n);
  };
  visit(entry_);
  rpo_.assign(post.rbegin(), post.rend());
  for (size_t i = 0; i < rpo_.size(); ++i) nodes_[static_cast<size_t>(rpo_[i])].order = static_cast<int>(i);
  reach_.assign(count, std::vector<bool>(count, false));
  for (int n : post) {
    auto& row = reach_[static_cast<size_t>(n)];
    row[static_cast<size_t>(n)] = true;
    for (int s : nodes_[static_cast<size_t>(n)].succs) {
      const auto& from = reach_[static_cast<size_t>(s)];
      for (size_t k = 0; k < count; ++k) {
        if (from[k]) row[k] = true;
      }
    }
  }
  for (NaturalLoop& loop : loops_) {
    for (size_t n = 0; n < count; ++n) {
      if (!loop.body[n]) continue;
      for (int s : nodes_[n].succs) {
        if (s == loop.next || loop.body[static_cast<size_t>(s)]) continue;
        if (std::find(loop.exits.begin(), loop.exits.end(), s) == loop.exits.end()) loop.exits.push_back(s);
      }
    }
    std::sort(loop.exits.begin(), loop.exits.end(), [&](int a, int b) {
      return nodes_[static_cast<size_t>(a)].order < nodes_[static_cast<size_t>(b)].order;
    });
  }
}

}  // namespace appy::bytecode
