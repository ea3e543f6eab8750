#include "trace/tensor_mapping.h"

#include <algorithm>
#include <numeric>

namespace appy::trace {
namespace {

using ir::Value;

/// Elements of in_reg that are computed together where no number is given, and at most.
constexpr int64_t default_unroll = 4, max_unroll = 8;
/// Elements that a thread takes at a time where lanes are divided inside other loops.
constexpr int64_t columns_of_thread = 1024;

struct Candidate {
  Value* extent;
  const Names* names;           // may be null
  const Dimension* disappears;  // null: it stays
};

/// The place of the first slice of the statement that the item names the dimension by; -1: it does not.
int rank_of(const Statement& st, size_t item, const Candidate& d) {
  if (!d.names) return -1;
  const std::vector<pragma::NamedSlice>& slices = st.placed->slices;
  int best = -1;
  for (const pragma::NamedSlice* s : *d.names) {
    const auto at = s - slices.data();
    if (at < 0 || at >= static_cast<ptrdiff_t>(slices.size())) continue;  // another statement's
    if (std::find(s->items.begin(), s->items.end(), static_cast<int>(item)) == s->items.end()) continue;
    if (best < 0 || at < best) best = static_cast<int>(at);
  }
  return best;
}

/// Which dimensions each item names.
class Resolver {
 public:
  Resolver(Context& c, Statement& st, std::span<const Candidate> dims) : c_(c), st_(st), dims_(dims) {}

  std::vector<std::vector<size_t>> run() {
    std::vector<std::vector<size_t>> out(st_.items.size());
    for (size_t k = 0; k < out.size(); k++) out[k] = by_text(k);
    for (size_t k = 0; k < out.size(); k++) {
      const int at = st_.items[k].position;
      if (out[k].empty() && at >= 0 && static_cast<size_t>(at) < dims_.size()) out[k] = {static_cast<size_t>(at)};
    }
    by_extent(out);
    return out;
  }

 private:
  bool reduces(size_t item) const { return !st_.items[item].text->reductions.empty(); }

  /// Of equal texts each one names another dimension, as long as there are some.
  std::vector<size_t> by_text(size_t item) {
    std::vector<size_t> kept, disappearing;
    for (size_t d = 0; d < dims_.size(); d++) {
      if (rank_of(st_, item, dims_[d]) < 0) continue;
      (dims_[d].disappears ? disappearing : kept).push_back(d);
    }
    if (!disappearing.empty() && (reduces(item) || kept.empty())) return disappearing;
    if (kept.empty()) return {};
    std::stable_sort(kept.begin(), kept.end(),
                     [&](size_t a, size_t b) { return rank_of(st_, item, dims_[a]) < rank_of(st_, item, dims_[b]); });
    const std::string& text = st_.items[item].text->dim;
    const auto free = std::find_if(kept.begin(), kept.end(), [&](size_t d) { return !taken_.count({text, d}); });
    const size_t chosen = free == kept.end() ? kept.front() : *free;
    taken_.insert({text, chosen});
    return {chosen};
  }

  void by_extent(std::vector<std::vector<size_t>>& out) {
    std::map<int64_t, std::vector<size_t>> waiting;
    for (size_t k = 0; k < out.size(); k++) {
      const Statement::Item& item = st_.items[k];
      const bool written = std::any_of(st_.placed->slices.begin(), st_.placed->slices.end(), [&](const auto& s) {
        return std::find(s.items.begin(), s.items.end(), static_cast<int>(k)) != s.items.end();
      });
      if (out[k].empty() && item.extent && item.position < 0 && !written) waiting[*item.extent].push_back(k);
    }
    for (const auto& [extent, items] : waiting) {
      std::vector<size_t> kept, disappearing;
      for (size_t d = 0; d < dims_.size(); d++) {
        if (c_.sample(dims_[d].extent) != extent) continue;
        const bool named = std::any_of(out.begin(), out.end(),
                                       [&](const auto& of) { return std::find(of.begin(), of.end(), d) != of.end(); });
        if (!named) (dims_[d].disappears ? disappearing : kept).push_back(d);
      }
      if (kept.size() + disappearing.size() == 1) {
        for (size_t k : items) out[k] = kept.empty() ? disappearing : kept;
        continue;
      }
      // As many items as there are dimensions of that extent: in order, reductions to those that disappear.
      std::vector<size_t> reducing, others;
      for (size_t k : items) (reduces(k) ? reducing : others).push_back(k);
      const bool split = reducing.size() == disappearing.size() && others.size() == kept.size();
      if (!reducing.empty() && reducing.size() == disappearing.size()) {
        for (size_t n = 0; n < reducing.size(); n++) out[reducing[n]] = {disappearing[n]};
      }
      if (split || (!others.empty() && others.size() == kept.size())) {
        for (size_t n = 0; n < others.size(); n++) out[others[n]] = {kept[n]};
      } else if (items.size() == kept.size() + disappearing.size() && reducing.empty()) {
        kept.insert(kept.end(), disappearing.begin(), disappearing.end());
        for (size_t n = 0; n < items.size(); n++) out[items[n]] = {kept[n]};
      }
    }
  }

  Context& c_;
  Statement& st_;
  std::span<const Candidate> dims_;
  std::set<std::pair<std::string, size_t>> taken_;
};

/// The dimension along which arrays run that are read across it by the lanes, and how many of its elements fill a
/// cache line: as many neighbours in one iteration make such a load a transposed square (csrc/cpu/vector_strided.cpp).
struct Across {
  size_t dim;
  int64_t elements;
};

std::optional<Across> read_across(const Nest& nest, size_t lane) {
  constexpr size_t most_arrays = 4;
  if (nest.in_order || !nest.inner.empty() || nest.touched.size() > most_arrays) return std::nullopt;
  // The target comes last: its rows are to be stored whole.
  if (nest.touched.empty() || runs(nest.touched.back()) != static_cast<int>(lane)) return std::nullopt;
  std::optional<Across> found;
  for (const Read& read : nest.touched) {
    const int dim = runs(read);
    const int size = ir::size_of(read.view->dtype);
    const bool crosses = std::find(read.dims.begin(), read.dims.end(), static_cast<int>(lane)) != read.dims.end();
    if (dim < 0 || static_cast<size_t>(dim) == lane || !crosses) continue;
    if (size < 4 || (found && (found->dim != static_cast<size_t>(dim) || found->elements != kCacheLine / size))) {
      return std::nullopt;
    }
    found = Across{static_cast<size_t>(dim), kCacheLine / size};
  }
  return found;
}

std::vector<Candidate> candidates(std::span<Value* const> shape, std::span<const Names> names,
                                  std::span<const InnerRef> inner) {
  std::vector<Candidate> out;
  for (size_t d = 0; d < shape.size(); d++) out.push_back({shape[d], names.empty() ? nullptr : &names[d], nullptr});
  for (const InnerRef& d : inner) out.push_back({d->extent, &d->names, d.get()});
  return out;
}

/// What the items say of each dimension. `settles`: these are the statement's, which messages tell of.
std::vector<Said> resolve(Context& c, std::span<const Candidate> dims, bool settles) {
  std::vector<Said> out(dims.size());
  Statement* st = c.statement();
  if (!st) return out;
  const std::vector<std::vector<size_t>> named = Resolver(c, *st, dims).run();
  for (size_t k = 0; k < named.size(); k++) {
    Statement::Item& item = st->items[k];
    for (size_t d : named[k]) {
      Said& said = out[d];
      if (!said.named()) said.order = static_cast<int>(k);
      said.parallel |= item.text->parallel;
      said.simd |= item.text->simd;
      said.in_reg |= item.text->in_reg;
      said.small |= item.text->le || item.text->single_block;
      if (item.le) said.le = item.le;
      if (item.block) said.block = item.block;
      if (!settles) continue;
      item.found = true;
      if (dims[d].disappears) {
        item.ops.insert(dims[d].disappears->op);
      } else {
        item.kept = true;
      }
    }
  }
  if (settles && dims.size() > st->dims.size()) {
    st->dims.clear();
    for (size_t d = 0; d < dims.size(); d++) {
      const bool sliced = dims[d].names && !dims[d].names->empty();
      st->dims.push_back(std::to_string(d) + (sliced ? " (`" + dims[d].names->front()->text + "`)" : ""));
    }
  }
  return out;
}

/// The loops of blocked dimensions as loops over tiles and, inside all of those, loops over their elements.
std::vector<NestLoop> tiled(const std::vector<NestLoop>& loops, std::vector<Said> said) {
  // Lanes that are divided between threads inside loops that are not.
  const NestLoop& last = loops.back();
  const bool inside = std::any_of(loops.begin(), loops.end(), [](const NestLoop& l) { return !l.parallel; });
  if (last.parallel && last.simd && inside && !said[last.dim].block) said[last.dim].block = columns_of_thread;
  const auto blocked = [&](const NestLoop& l) { return said[l.dim].block > 0 && l.unroll == 1; };
  size_t first = 0;
  while (first < loops.size() && loops[first].parallel && !blocked(loops[first])) first++;
  std::vector<NestLoop> out(loops.begin(), loops.begin() + static_cast<ptrdiff_t>(first)), tiles, points;
  size_t blocks = 0;
  for (size_t k = first; k < loops.size(); k++) blocks += blocked(loops[k]);
  for (size_t k = first; k < loops.size(); k++) {
    NestLoop point = loops[k];
    // A loop over tiles right around that over its elements does what one loop does.
    const bool moves = blocked(point) && (k > first || blocks > 1);
    if (moves) {
      NestLoop& tile = tiles.emplace_back(point);
      tile.tile = said[point.dim].block;
      tile.simd = false;
      tile.le = 0;
      tile.alone = !tile.parallel;
      point.parallel = false;
      point.alone = true;
    } else if (blocked(point) && point.parallel) {
      point.chunk = said[point.dim].block;
    }
    points.push_back(point);
  }
  // Threads take tiles; their order is that of the items.
  std::stable_sort(tiles.begin(), tiles.end(), [&](const NestLoop& a, const NestLoop& b) {
    return a.parallel != b.parallel ? a.parallel : said[a.dim].order < said[b.dim].order;
  });
  out.insert(out.end(), tiles.begin(), tiles.end());
  out.insert(out.end(), points.begin(), points.end());
  return out;
}

/// Does an element of the nest use something again that does not depend on this dimension?
bool reuses(const Nest& nest, size_t dim) {
  if (!nest.inner.empty()) return true;
  return std::any_of(nest.touched.begin(), nest.touched.end(), [&](const Read& r) {
    return r.regular && std::find(r.dims.begin(), r.dims.end(), static_cast<int>(dim)) == r.dims.end();
  });
}

}  // namespace

std::vector<Said> said_of(Context& c, std::span<Value* const> shape, std::span<const Names> names,
                          std::span<const InnerRef> inner) {
  return resolve(c, candidates(shape, names, inner), false);
}

Mapping plan(Context& c, const Nest& nest) {
  const std::vector<Candidate> dims = candidates(nest.shape, nest.names, nest.inner);
  const std::vector<Said> said = resolve(c, dims, true);
  Statement* st = c.statement();
  if (st) {
    for (size_t k = 0; k < nest.inner.size(); k++) st->inner[nest.inner[k].get()] = said[nest.shape.size() + k];
  }
  std::vector<size_t> order;
  for (int d : loop_order(nest.touched, nest.shape.size())) {
    if (!is_one(nest.shape[static_cast<size_t>(d)])) order.push_back(static_cast<size_t>(d));
  }
  Mapping out;
  if (order.empty()) return out;
  const size_t along_memory = order.back();
  // The named ones in the order of their items, where named ones stand.
  std::vector<size_t> named;
  for (size_t d : order) {
    if (said[d].named()) named.push_back(d);
  }
  std::stable_sort(named.begin(), named.end(), [&](size_t a, size_t b) { return said[a].order < said[b].order; });
  size_t lane = nest.shape.size();
  for (size_t d : named) {
    if (said[d].simd) lane = d;
  }
  out.lanes_said = lane < nest.shape.size();
  const bool inside = std::any_of(said.begin() + static_cast<ptrdiff_t>(nest.shape.size()), said.end(),
                                  [](const Said& s) { return s.simd; });
  const bool taken = st && st->lanes;
  if (!out.lanes_said && !inside && !taken && nest.lanes && c.auto_simd()) lane = along_memory;
  if (!nest.in_order) {
    size_t next = 0;
    for (size_t& d : order) {
      if (said[d].named()) d = named[next++];
    }
    if (const auto at = std::find(order.begin(), order.end(), lane); at != order.end()) {
      std::rotate(at, at + 1, order.end());
    }
  }
  int64_t together = 1;
  const bool arranged = std::any_of(said.begin(), said.end(), [](const Said& s) { return s.block > 0 || s.in_reg; });
  const std::optional<Across> across =
      arranged || order.back() != lane || c.for_device() ? std::nullopt : read_across(nest, lane);
  for (size_t k = 0; k < order.size(); k++) {
    const size_t d = order[k];
    NestLoop loop;
    loop.dim = d;
    // A device has workers for all dimensions.
    const bool unsaid = k == 0 || (c.for_device() && !nest.in_order);
    loop.parallel = said[d].named() ? said[d].parallel && !said[d].small : unsaid;
    loop.simd = d == lane && k + 1 == order.size();
    loop.alone = said[d].named() && !loop.parallel && !nest.in_order;
    loop.le = said[d].le;
    if (said[d].in_reg && d != lane && !nest.in_order && reuses(nest, d)) {
      loop.unroll = std::min(said[d].block ? said[d].block : default_unroll, max_unroll / together);
      loop.unroll = std::max<int64_t>(loop.unroll, 1);
      together *= loop.unroll;
    } else if (across && across->dim == d && !said[d].small) {
      loop.unroll = across->elements;
    }
    out.loops.push_back(loop);
  }
  if (!nest.in_order) out.loops = tiled(out.loops, said);
  return out;
}

std::vector<NestLoop> plan_inner(Context& c, std::span<const InnerRef> inner, Order permitted) {
  Statement* st = c.statement();
  std::vector<Said> said(inner.size());
  const auto known = [&](const InnerRef& d) { return st->inner.count(d.get()) > 0; };
  if (st && !std::all_of(inner.begin(), inner.end(), known)) {
    said = resolve(c, candidates({}, {}, inner), true);
  } else if (st) {
    for (size_t k = 0; k < inner.size(); k++) said[k] = st->inner[inner[k].get()];
  }
  std::vector<size_t> order, named;
  for (size_t k = 0; k < inner.size(); k++) {
    if (is_one(inner[k]->extent)) continue;
    order.push_back(k);
    if (said[k].named()) named.push_back(k);
  }
  std::stable_sort(named.begin(), named.end(), [&](size_t a, size_t b) { return said[a].order < said[b].order; });
  size_t lane = inner.size();
  for (size_t k : named) {
    if (said[k].simd) lane = k;
  }
  if (lane == inner.size() && !order.empty() && c.auto_simd()) lane = order.back();
  if (st && st->lanes) lane = inner.size();
  if (permitted == Order::any) {
    size_t next = 0;
    for (size_t& k : order) {
      if (said[k].named()) k = named[next++];
    }
    if (const auto at = std::find(order.begin(), order.end(), lane); at != order.end()) {
      std::rotate(at, at + 1, order.end());
    }
  }
  const bool reorders = permitted != Order::kept;
  std::vector<NestLoop> out;
  for (size_t n = 0; n < order.size(); n++) {
    const Said& s = said[order[n]];
    NestLoop& loop = out.emplace_back();
    loop.dim = order[n];
    loop.parallel = reorders && (s.named() ? s.parallel && !s.small : n == 0 || c.for_device());
    loop.simd = reorders && order[n] == lane && n + 1 == order.size();
    loop.le = s.le;
    if (loop.parallel) loop.chunk = s.block;
  }
  return out;
}

std::vector<std::string> review(const Statement& st) {
  std::vector<std::string> out;
  for (const Statement::Item& item : st.items) {
    const std::string text = "the item `" + item.text->text + "` ";
    if (!item.found) {
      std::string dims;
      for (size_t d = 0; d < st.dims.size(); d++) {
        dims += (d == 0 ? "" : d + 1 == st.dims.size() ? " and " : ", ") + st.dims[d];
      }
      out.push_back(text + "names no dimension of the statement and is ignored; " +
                    (dims.empty() ? "it has no loop" : "its dimensions are " + dims));
      continue;
    }
    for (const pragma::ItemReduction& r : item.text->reductions) {
      const auto same = [&](const std::string& op) {
        return op == r.op || op == "arg" + r.op || (op == "any" && r.op == "sum");
      };
      if (!item.ops.empty() && std::none_of(item.ops.begin(), item.ops.end(), same)) {
        out.push_back(text + "says `reduction(" + r.op + ")`, which is ignored: the statement reduces with " +
                      *item.ops.begin());
      } else if (item.ops.empty() && item.kept) {
        out.push_back(text + "says `reduction(" + r.op + ")`, which is ignored: the dimension stays in the result");
      }
      const std::vector<std::string>& targets = st.placed->targets;
      if (!r.target.empty() && std::find(targets.begin(), targets.end(), r.target) == targets.end()) {
        out.push_back(text + "names " + r.target + ", which the statement does not assign");
      }
    }
  }
  return out;
}

}  // namespace appy::trace
