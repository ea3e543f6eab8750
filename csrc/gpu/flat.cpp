// Nests whose iterations touch the elements of whole rows that follow each other in memory: numbered through, as one
// loop. Every block then begins where a line of memory does, and all go through memory together.
#include <algorithm>

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

using Nest = std::vector<const Op*>;

bool depends(const passes::Affine& row, const Nest& nest) {
  return std::any_of(nest.begin(), nest.end(), [&](const Op* l) { return row.coef(*passes::induction(*l)) != 0; });
}

}  // namespace

/// What the kernel's beginning calls the number, or nothing.
std::string Writer::known_number(const Value& v) const {
  if (!v.op) return v.block == graph_.body ? names_.known(v) : "";
  if (v.op->code == Opcode::const_) return std::to_string(v.op->imm) + "ll";
  if (v.op->code != Opcode::dim_ || v.op->operands[0]->op) return "";
  return names_.known(*v.op->operands[0]) + "_n" + std::to_string(v.op->dim);
}

/// Iterations (i, j, ...) touch [i, j, ...] where rows are as long as the loops, which `tests` say, or all the same
/// element.
bool Writer::lies_flat(const Op& access, const Nest& nest, std::set<std::string>& tests) const {
  const Value& view = *access.view();
  const auto rank = static_cast<size_t>(view.type.rank);
  bool same = true;
  for (size_t d = 0; d < rank; ++d) same &= !depends(passes::row(access, d), nest);
  if (same) return access.code == Opcode::load_ && !passes::writes_to(*nest[0]->blocks[0], view);
  if (rank != nest.size() || (view.type.layout != Layout::c && view.type.layout != Layout::f)) return false;
  if (view.op && code_.arrays[array_of_.at(view.op)].owner != ArrayUse::Owner::region) return false;
  for (size_t k = 0; k < rank; ++k) {
    const size_t d = view.type.layout == Layout::c ? k : rank - 1 - k;
    passes::Affine row = passes::row(access, d);
    row.add(*passes::induction(*nest[k]), -1);
    if (!row.is_constant() || row.constant != 0) return false;
    if (k == 0) continue;
    const std::string extent =
        view.op ? known_number(*view.op->operands[d]) : names_.known(view) + "_n" + std::to_string(d);
    const std::string trips = known_number(*nest[k]->operands[1]);
    if (extent.empty() || trips.empty()) return false;
    if (extent != trips) tests.insert(extent + " == " + trips);
  }
  return true;
}

bool Writer::is_flat(const Nest& nest, std::set<std::string>& tests) const {
  if (nest.size() < 2) return false;
  for (size_t k = 0; k < nest.size(); ++k) {
    const Op& loop = *nest[k];
    if (!loop.results.empty() || !can_interleave(loop, k + 1 < nest.size() ? nest[k + 1] : nullptr)) return false;
    if (passes::constant(*loop.operands[0]) != 0 || passes::constant(*loop.operands[2]) != 1) return false;
  }
  bool fits = true;
  ir::walk(*nest[0]->blocks[0], [&](const Op& op) {
    if (!fits) return;
    const bool access = passes::is_access(op);
    const std::span values = std::span(op.operands).first(access ? op.first_term() : op.operands.size());
    fits = std::none_of(values.begin(), values.end(), [&](const Value* v) {
      return std::any_of(nest.begin(), nest.end(), [&](const Op* loop) { return passes::induction(*loop) == v; });
    });
    if (access) fits = fits && lies_flat(op, nest, tests);
  });
  return fits;
}

/// Decides for all nests, and for those that count alike together.
void Writer::find_flat() {
  std::vector<Nest> nests;
  ir::walk(*graph_.body, [&](const Op& op) {
    const Op* around = op.parent->owner;
    if (op.code != Opcode::for_ || op.mapping != Mapping::threads || (around && around->mapping == op.mapping)) return;
    nests.push_back(nest_of(op));
  });
  for (const Nest& nest : nests) {
    std::set<std::string> tests;
    const bool fits = std::all_of(nests.begin(), nests.end(),
                                  [&](const Nest& other) { return !are_alike(nest, other) || is_flat(other, tests); });
    if (!fits) continue;
    std::string all;
    for (const std::string& test : tests) all += (all.empty() ? "" : " && ") + test;
    flat_[nest.back()] = all;
  }
}

/// Where the test holds: one row of all iterations, and one iteration of each loop around it.
void Writer::flatten(const std::string& test, std::vector<std::string>& outer, std::string& n) {
  const std::string flat = names_.fresh("", "flat");
  put("const bool " + flat + " = " + test + ";");
  std::string all = n;
  for (const std::string& trips : outer) all += " * " + trips;
  const auto declare = [&](std::string& trips, const std::string& value) {
    const std::string name = names_.fresh("", "n");
    put("const i64 " + name + " = " + flat + " ? " + value + " : " + trips + ";");
    trips = name;
  };
  declare(n, all);
  for (std::string& trips : outer) declare(trips, "1");
}

/// The nest's iterations as one loop's.
void Writer::along_flat(const Nest& nest) {
  open("");
  std::string all;
  for (const Op* loop : nest) {
    all += (all.empty() ? "" : " * ") + declare_trips(*loop);
    if (loop != nest.back()) declare_variable(*loop, "0");
  }
  const std::string n = names_.fresh("", "n");
  put("const i64 " + n + " = " + all + ";");
  along_line(*nest.back(), n);
  close();
}

}  // namespace appy::gpu
