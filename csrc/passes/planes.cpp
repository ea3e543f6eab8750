// Stencils over planes by strips of lines. Where iterations of a loop that workers share read lines of each other's
// planes,
//
//   for i on workers: for j: for k in lanes: b[i, j, k] = f(a[i - 1, j, k], a[i, j, k], a[i + 1, j, k], ...)
//
// and the planes that one iteration reads do not stay in the cache, every line comes from memory again for each of
// them. So workers have groups of planes, and go through a group by strips of lines that do stay. It is the partial
// tiling of Rivera and Tseng ("Tiling optimizations for 3D scientific computations", 2000), without copies.
//
// Whether planes are that large depends on extents: the loop as written stands beside it.
//
// Rules for editors:
// 1. Planes may run in any order, also between each other's lines: that is what their permission says. The lines of one
//    plane keep their order.
// 2. What a plane computes for its lines it computes again in each strip: nothing of it is read from what planes write.

#include "passes/planes.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/row_nest.h"
#include "passes/subscripts.h"
#include "passes/tile_loop.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "planes";
/// Groups for each worker, which others may take, but of so many planes for each one that neighbours read.
constexpr int64_t kGroups = 4, kLeastPlanes = 2;
/// Planes of an iteration at most.
constexpr int64_t kMostAtATime = 16;
/// No product of two such numbers overflows.
constexpr int64_t kMost = int64_t{1} << 30;

/// Accesses to one array whose subscripts differ by constants: the first and the last plane and line that they reach.
struct Window {
  const Op* access = nullptr;
  Wide first_plane = 0, last_plane = 0, first_line = 0, last_line = 0;

  Wide planes() const { return last_plane - first_plane + 1; }
};

/// The one dimension in which the variable stands, by itself.
std::optional<size_t> dimension_of(const Op& access, const Value& variable) {
  std::optional<size_t> found;
  for (size_t d = 0; d < access.access->offset.size(); ++d) {
    const Wide coef = row(access, d).coef(variable);
    if (coef == 0) continue;
    if (coef != 1 || found) return {};
    found = d;
  }
  return found;
}

class Planes {
 public:
  Planes(Op& row, const StripSizes& sizes) : graph_(*row.graph), sizes_(sizes), row_(row), b_(graph_) {}

  bool run() {
    if (!find_nest()) return false;
    find_windows();
    if (element_ == 0) return false;
    b_.set_loc(planes_->loc);
    b_.set_before(planes_);
    return with_versions(b_, *planes_, pays(), [&](Op& choice) {
      remark(graph_, ir::Severity::note, kStage, planes_->loc,
             "where planes are large, the loop at " + line_of(graph_, planes_->loc) +
                 " runs in groups, each by strips of the one at " + line_of(graph_, lines_->loc));
      b_.set_block(choice.blocks[0]);
      divide();
      b_.yield({});
    });
  }

 private:
  /// From the row outwards to the loop that workers share.
  bool find_nest() {
    if (!is_row_in_lanes(row_) || !row_.results.empty()) return false;
    lines_ = &row_;
    for (Op* loop = ir::enclosing_loop(*row_.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
      if (!is_for(*loop) || !loop->results.empty() || !is_perfect(*loop, *lines_)) return false;
      if (loop->loop->parallel) {
        planes_ = loop;
        step_ = constant(*loop->operands[2]).value_or(0);
        break;
      }
      if (!left_by_yield_only(*loop)) return false;
      inside_.push_back(lines_);
      lines_ = loop;
    }
    return planes_ && may_be_divided();
  }

  bool may_be_divided() const {
    const ir::Loop& kind = *planes_->loop;
    if (kind.simd || kind.schedule != ir::Schedule::automatic || kind.chunk != 0 || kind.collapse != 1 || step_ < 1 ||
        step_ > kMostAtATime || !ordered_by_accesses_only(*planes_) || constant(*lines_->operands[2]) != 1) {
      return false;
    }
    const auto known_before = [&](const Op* loop) {
      return std::all_of(loop->operands.begin(), loop->operands.begin() + 3,
                         [&](const Value* v) { return visible_before(*v, *planes_); });
    };
    if (!known_before(lines_) || !std::ranges::all_of(inside_, known_before)) return false;
    for (const Op* op = body_of(*planes_).first; op; op = op->next) {
      if (op->code == Opcode::load_ && writes_to(body_of(*planes_), *op->view())) return false;
    }
    return true;
  }

  /// Those of which iterations read each other's planes.
  void find_windows() {
    std::vector<Window> windows;
    for (const Op* op = body_of(row_).first; op; op = op->next) {
      if (is_access(*op)) add(*op, windows);
    }
    for (const Window& w : windows) {
      if (w.planes() <= step_ || w.planes() > kMost || w.last_line - w.first_line > kMost) continue;
      most_planes_ = std::max(most_planes_, static_cast<int64_t>(w.planes()));
      beside_ = std::max(beside_, static_cast<int64_t>(w.last_line - w.first_line));
      element_ += static_cast<int64_t>(w.planes()) * ir::size_of(w.access->view()->type.dtype);
    }
  }

  void add(const Op& access, std::vector<Window>& windows) const {
    const auto plane = dimension_of(access, *induction(*planes_)), line = dimension_of(access, *induction(*lines_));
    if (!plane || !line) return;
    const Wide p = row(access, *plane).constant, l = row(access, *line).constant;
    for (Window& w : windows) {
      if (!differ_by_constants(access, *w.access)) continue;
      w.first_plane = std::min(w.first_plane, p);
      w.last_plane = std::max(w.last_plane, p);
      w.first_line = std::min(w.first_line, l);
      w.last_line = std::max(w.last_line, l);
      return;
    }
    windows.push_back({&access, p, p, l, l});
  }

  static bool differ_by_constants(const Op& a, const Op& b) {
    if (a.view() != b.view()) return false;
    for (size_t d = 0; d < a.access->offset.size(); ++d) {
      if (row(a, d).terms != row(b, d).terms) return false;
    }
    return true;
  }

  /// A condition: planes are large, strips not too short, and planes enough for all workers. It has no divisions, which
  /// entries would compute where the sizes they have are settled.
  Value* pays() {
    bytes_ = b_.i64(element_);
    for (const Op* loop : inside_) bytes_ = bounded(b_.op(Opcode::mul_, {bytes_, bounded(emit_trips(b_, *loop))}));
    line_count_ = bounded(emit_trips(b_, *lines_));
    plane_count_ = emit_trips(b_, *planes_);
    Value* least_lines = b_.i64(beside_ + (in_lanes() ? sizes_.lanes : sizes_.lines));
    Value* large = b_.op(Opcode::gt_, {b_.op(Opcode::mul_, {bytes_, line_count_}), b_.i64(sizes_.worth)});
    Value* fit = b_.op(Opcode::le_, {b_.op(Opcode::mul_, {bytes_, least_lines}), b_.i64(sizes_.bytes)});
    Value* many = b_.op(Opcode::ge_, {plane_count_, b_.i64(workers() * least_planes())});
    return b_.op(Opcode::and_, {b_.op(Opcode::and_, {large, fit}), many});
  }

  /// Lines of a strip: as many as fit, or less, so that all strips are about as long.
  Value* strip() {
    Value* room = b_.op(Opcode::floordiv_, {b_.i64(sizes_.bytes), at_least_one(bytes_)});
    Value* fit = at_least_one(b_.op(Opcode::sub_, {room, b_.i64(beside_)}));
    Value* even = emit_ceiling(b_, line_count_, at_least_one(emit_ceiling(b_, line_count_, fit)));
    return in_lanes() ? emit_multiple(b_, even, sizes_.multiple) : even;
  }
  Value* group() {
    Value* each = emit_ceiling(b_, plane_count_, b_.i64(workers() * kGroups));
    return b_.op(Opcode::mul_, {b_.op(Opcode::pymax_, {each, b_.i64(least_planes())}), b_.i64(step_)});
  }

  bool in_lanes() const { return lines_ == &row_; }
  int64_t workers() const { return std::max(1, graph_.workers); }
  int64_t least_planes() const { return kLeastPlanes * ((most_planes_ + step_ - 1) / step_); }
  Value* at_least_one(Value* v) { return b_.op(Opcode::pymax_, {v, b_.i64(1)}); }
  Value* bounded(Value* v) { return b_.op(Opcode::pymin_, {v, b_.i64(kMost)}); }

  void divide() {
    Copier copier(graph_);
    Op& planes = *copier.copy(*planes_);
    Op& lines = *copier.of(induction(*lines_))->block->owner;
    ir::Loop on_workers, in_order;
    on_workers.parallel = true;
    on_workers.annotated = planes.loop->annotated;
    on_workers.threads = planes.loop->threads;
    in_order.annotated = lines.loop->annotated;
    planes.loop->parallel = false;

    Value *many_planes = group(), *many_lines = strip();
    Op& groups = *b_.for_loop(planes.operands[0], planes.operands[1], many_planes, {}, std::move(on_workers));
    b_.set_block(&body_of(groups));
    Value* end = end_of(b_, induction(groups), many_planes, planes);
    Op& strips = *b_.for_loop(lines.operands[0], lines.operands[1], many_lines, {}, std::move(in_order));
    b_.set_block(&body_of(strips));
    lines.operands[1] = end_of(b_, induction(strips), many_lines, lines);
    lines.operands[0] = induction(strips);
    put_into(strips, planes, induction(groups), end);
    b_.yield({});
    b_.set_block(&body_of(groups));
    b_.yield({});
    b_.set_block(groups.parent);
  }

  ir::Graph& graph_;
  const StripSizes& sizes_;
  Op& row_;
  Builder b_;
  Op *planes_ = nullptr, *lines_ = nullptr;  // `lines_` stands in `planes_`, and is the row where planes are lines
  std::vector<Op*> inside_;                  // loops inside `lines_`
  int64_t step_ = 1;                         // planes that an iteration has: two where rows run together
  int64_t element_ = 0;                      // bytes that one of a line has in all planes read together
  int64_t most_planes_ = 1;                  // of an array read together
  int64_t beside_ = 0;                       // lines that a strip reads of its neighbours
  Value *bytes_ = nullptr, *line_count_ = nullptr, *plane_count_ = nullptr;  // of a line in all planes
};

}  // namespace

bool by_strips(ir::Graph& graph, const StripSizes& sizes) {
  if (graph.may_alias) return false;
  bool changed = false;
  for (Op* loop : for_loops(graph)) changed |= Planes(*loop, sizes).run();
  return changed;
}

bool planes(ir::Graph& graph) { return by_strips(graph, {}); }

}  // namespace appy::passes
