// Nests of the form of a matrix product, in tiles: what a row and a column have, how a step combines them, and where
// sums begin and go, as functions that appy_product.h calls.
#include <algorithm>
#include <utility>

#include "gpu/expressions.h"
#include "gpu/tiling.h"
#include "gpu/writer.h"
#include "passes/loops.h"
#include "passes/product.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::gpu {

using ir::Op;
using ir::Opcode;
using ir::Value;
using passes::Product;
using passes::Side;

namespace {

using Wanted = std::set<const Op*>;

/// The op that defines a value, as far as code has to be written for it anew.
void want(const Value& v, const Product& p, Wanted& wanted) {
  if (!v.op || v.op->code == Opcode::const_ || ir::defined_outside(v, passes::body_of(*p.nest[0]))) return;
  if (v.op == p.steps) return;
  const bool of_step = !ir::defined_outside(v, passes::body_of(*p.steps));
  if (p.side(v) == Side::neither && !of_step) return;  // known for the tile
  if (!wanted.insert(v.op).second) return;
  for (const Value* operand : v.op->operands) want(*operand, p, wanted);
  for (ir::Block* inner : v.op->blocks) {
    ir::walk(*inner, [&](const Op& op) {
      for (const Value* operand : op.operands) want(*operand, p, wanted);
    });
  }
}

/// Neighbours in memory are those of a step, not of a row or column.
bool runs_along_steps(const Product& p, const std::vector<const Value*>& values, const Op& loop) {
  Wanted wanted;
  for (const Value* v : values) want(*v, p, wanted);
  for (const Op* op : wanted) {
    if (op->code != Opcode::load_ || op->view()->type.rank == 0) continue;
    const auto rank = op->access->offset.size();
    const auto at = [&](size_t d, const Op& of) { return passes::row(*op, d).coef(*passes::induction(of)); };
    const size_t unit = op->view()->type.layout == ir::Layout::f ? 0 : rank - 1;
    if (at(unit, *p.steps) != 0) return true;
    if (at(unit, loop) != 0) return false;
  }
  return false;
}

/// What keeps the sums of a row and a column.
Wanted wanted_at_end(const Product& p) {
  Wanted wanted;
  for (const Op* op = p.columns().blocks[0]->first; op; op = op->next) {
    if (op->code != Opcode::store_ && op->code != Opcode::if_) continue;
    if (op->code == Opcode::if_ && !passes::writes(*op)) continue;
    wanted.insert(op);
    for (const Value* v : op->operands) want(*v, p, wanted);
    for (ir::Block* arm : op->blocks) {
      ir::walk(*arm, [&](const Op& inner) {
        for (const Value* v : inner.operands) want(*v, p, wanted);
      });
    }
  }
  return wanted;
}

/// What an element of the result needs from memory, beside its sums: other elements are stored meanwhile.
std::vector<const Value*> loads_before_stores(const Product& p) {
  constexpr size_t most = 2;
  const Wanted at_end = wanted_at_end(p);
  std::vector<const Value*> loads;
  for (const Op* op = passes::body_of(p.columns()).first; op && !passes::writes(*op); op = op->next) {
    if (op->code != Opcode::load_ || !at_end.count(op) || p.side(*op->result()) != Side::both) continue;
    if (loads.size() == most) break;
    Wanted wanted;
    want(*op->result(), p, wanted);
    const bool of_sums = std::any_of(wanted.begin(), wanted.end(), [&](const Op* from) {
      return std::any_of(from->operands.begin(), from->operands.end(),
                         [&](const Value* v) { return v->op == p.steps; });
    });
    if (!of_sums) loads.push_back(op->result());
  }
  return loads;
}

}  // namespace

TileSize Writer::tile_size(const Op& outermost) const {
  const auto found = tiled_.find(&outermost);
  return found == tiled_.end() ? TileSize::none : options_.shape.tile_size(found->second);
}

std::string Writer::struct_of(const std::string& name, const std::vector<const Value*>& values,
                              const std::string& more) {
  const std::string type = names_.fresh("", name);
  structs_ += "struct " + type + " {\n";
  for (size_t k = 0; k < values.size(); ++k)
    structs_ += "  " + std::string(type_of(values[k]->type.dtype)) + " v" + std::to_string(k) + ";\n";
  structs_ += more + "};\n\n";
  return type;
}

/// What of the nest stands in `wanted`, in its order.
void Writer::write_wanted(const Product& p, const Wanted& wanted) {
  for (const Op* loop : p.nest) {
    for (const Op* op = loop->blocks[0]->first; op; op = op->next) {
      if (wanted.count(op)) statement(*op);
      if (op != p.steps) continue;
      for (const Op* inner = op->blocks[0]->first; inner; inner = inner->next) {
        if (wanted.count(inner)) statement(*inner);
      }
    }
  }
}

/// The variables of these loops in the iterations of these numbers.
void Writer::declare_at(const Product& p, const std::vector<std::pair<const Op*, std::string>>& at) {
  for (const auto& [loop, index] : at) {
    // Steps that begin anywhere are counted by their variable.
    const bool itself = loop == p.steps && p.uneven != Side::neither;
    put("const i64 " + names_.of(*loop->blocks[0]->args[0]) + " = " + (itself ? index : variable_at(*loop, index)) +
        ";");
  }
}

/// A function of `head` that returns these values, and begins with `begin`.
void Writer::value_function(const std::string& head, const Product& p, const std::vector<const Value*>& values,
                            const std::vector<std::pair<const Op*, std::string>>& at, const std::string& begin) {
  open(head);
  if (!begin.empty()) put(begin);
  declare_at(p, at);
  Wanted wanted;
  for (const Value* v : values) want(*v, p, wanted);
  write_wanted(p, wanted);
  std::string list;
  for (const Value* v : values) list += (list.empty() ? "" : ", ") + argument(*v);
  put("return {" + list + "};");
  close(";");
}

/// Are they numbers that lie in global memory as they are?
bool Writer::can_copy(const std::vector<const Value*>& values) const {
  return std::all_of(values.begin(), values.end(), [&](const Value* v) {
    const Op* load = v->op;
    const ir::DType type = v->type.dtype;
    const auto size = ir::size_of(type);
    return load && load->code == Opcode::load_ && load->view()->type.dtype == type && (size == 4 || size == 8) &&
           !is_unaligned(*load->view()) && !is_in_shared(*load->view());
  });
}

/// A function that begins to copy them: numbers `apart` from each other, or the members of a struct.
void Writer::copy_function(const std::string& name, const std::string& type, const Product& p,
                           const std::vector<const Value*>& values,
                           const std::vector<std::pair<const Op*, std::string>>& at) {
  const std::string to = names_.fresh("", "to"), apart = names_.fresh("", "apart");
  open("const auto " + name + " = [&](" + type + "* " + to + ", int " + apart + ", i64 " + at[0].second + ", i64 " +
       at[1].second + ")");
  declare_at(p, at);
  Wanted wanted;
  for (const Value* v : values) {
    for (const Value* operand : v->op->operands) want(*operand, p, wanted);
  }
  write_wanted(p, wanted);
  for (size_t k = 0; k < values.size(); ++k) {
    const std::string number = to + (k ? " + " + apart : ""), member = "&" + to + "->v" + std::to_string(k);
    put("copy_ahead(" + (type == "double" ? number : member) + ", &" + element(*values[k]->op) + ");");
  }
  close(";");
}

/// What neither a row nor a column says.
void Writer::known_of_tile(const Product& p) {
  for (const Op* loop : p.nest) {
    for (const Op* op = loop->blocks[0]->first; op; op = op->next) {
      if (op->code == Opcode::for_ && op != p.steps) break;
      const bool known = op != p.steps && op->result() && p.side(*op->result()) == Side::neither;
      if (known) statement(*op);
    }
  }
}

/// A function of the number of a row that says how many columns it has; `across` is that, where all have as many.
void Writer::declare_width(const Product& p, const std::string& name, std::string& across) {
  const Op &rows = p.rows(), &columns = p.columns();
  if (p.rectangular) {
    across = declare_trips(columns);
    put("const auto " + name + " = [&](i64) { return " + across + "; };");
    return;
  }
  const std::string r = names_.fresh("", "r");
  open("const auto " + name + " = [&](i64 " + r + ") -> i64");
  put("const i64 " + names_.of(*rows.blocks[0]->args[0]) + " = " + variable_at(rows, r) + ";");
  Wanted wanted;
  want(*columns.operands[1], p, wanted);
  write_wanted(p, wanted);
  put("return trips(" + argument(*columns.operands[0]) + ", " + argument(*columns.operands[1]) + ", " +
      argument(*columns.operands[2]) + ");");
  close(";");
}

bool Writer::is_given(const Op& outermost) const {
  const auto found = tiled_.find(&outermost);
  return found != tiled_.end() && static_cast<int>(found->second) == options_.shape.given;
}

/// What the nest does with its sums, which lie in memory a row after the other. A warp has rows of a tile of 32 x 32
/// that follow each other: what it reads from the other side of the diagonal are neighbours then.
void Writer::given_sums(const Op& outermost) {
  const Product p = *passes::product_of(outermost);
  const auto level = std::exchange(level_, Level::thread);
  const auto outer_loops = std::move(loops_);
  loops_.clear();
  const Op &rows = p.rows(), &columns = p.columns(), &steps = *p.steps;
  const std::string sums_type = struct_of("Sums", {steps.results[0]});
  const std::string r = names_.fresh("", "r"), c = names_.fresh("", "c"), width = names_.fresh("", "width"),
                    w = names_.fresh("", "w"), down = names_.fresh("", "down"), right = names_.fresh("", "across"),
                    row = names_.fresh("", "row"), column = names_.fresh("", "column"), end = names_.fresh("", "end"),
                    given = names_.fresh("", "given"), leading = names_.fresh("", "leading"),
                    first = names_.fresh("", "first"), before = names_.fresh("", "before"),
                    last = names_.fresh("", "last"), told = names_.fresh("", "sums"), held = names_.fresh("", "held");
  const std::string type = type_of(steps.results[0]->type.dtype), element = " = [&](i64 " + r + ", i64 " + c;
  const auto word = [&](size_t k) { return "p.w[" + std::to_string(code_.given_words + k) + "]"; };
  open("");
  put("const " + type + "* const __restrict__ " + given + " = (const " + type + "*)" + word(0) + ";");
  put("const i64 " + leading + " = (i64)" + word(1) + ";");
  const std::string height = declare_trips(rows);
  std::string across;
  declare_width(p, width, across);
  if (!p.rectangular) across = leading;  // where no row ends before
  put("const i64 " + down + " = (" + height + " + 31) / 32, " + right + " = (" + across + " + 31) / 32;");
  known_of_tile(p);
  value_function("const auto " + first + element + ") -> " + sums_type, p, {steps.operands[3]},
                 {{&rows, r}, {&columns, c}}, "");
  const std::vector<const Value*> loads = loads_before_stores(p);
  const std::string held_type = struct_of("Held", loads);
  value_function("const auto " + before + element + ") -> " + held_type, p, loads, {{&rows, r}, {&columns, c}}, "");
  tile_end(p,
           "const auto " + last + element + ", const " + sums_type + "& " + told + ", const " + held_type + "& " +
               held + ")",
           told, loads, held, {{&rows, r}, {&columns, c}});
  open("for (i64 " + w + " = blockIdx.x; " + w + " < " + down + " * " + right + "; " + w + " += gridDim.x)");
  put("const i64 " + row + " = quotient(" + w + ", " + right + ") * 32, " + column + " = (" + w + " - " + row +
      " / 32 * " + right + ") * 32 + threadIdx.x % 32;");
  put("const i64 " + end + " = " + height + " - " + row + " < 32 ? " + height + " : " + row + " + 32;");
  const int warps = options_.shape.block / 32, each = (32 + warps - 1) / warps;
  open("for (i64 " + r + " = " + row + " + threadIdx.x / 32 * " + std::to_string(each) + ", " + c + " = " + r + " + " +
       std::to_string(each) + "; " + r + " < " + c + " && " + r + " < " + end + "; ++" + r + ")");
  put("if (" + column + " >= " + width + "(" + r + ")) continue;");
  const std::string mirrored = p.terms == 2 ? " + " + given + "[" + column + " * " + leading + " + " + r + "]" : "";
  const std::string sum = given + "[" + r + " * " + leading + " + " + column + "]" + mirrored;
  put(sums_type + " " + told + " = " + first + "(" + r + ", " + column + ");");
  put(told + ".v0 = " + (p.from_zero() ? sum : told + ".v0 + (" + sum + ")") + ";");
  put(last + "(" + r + ", " + column + ", " + told + ", " + before + "(" + r + ", " + column + "));");
  close();
  close();
  close();
  level_ = level;
  loops_ = outer_loops;
}

void Writer::tiles(const Op& outermost) {
  const Product p = *passes::product_of(outermost);
  const Tiling tiling = tiling_of(p, tile_size(outermost), options_.shape.block, options_.shape.shared);
  code_.tiles = true;
  code_.shared_bytes = std::max(code_.shared_bytes, tiling.shared_bytes);
  const auto level = std::exchange(level_, Level::thread);
  const auto outer_loops = std::move(loops_);
  loops_.clear();

  const Op &rows = p.rows(), &columns = p.columns(), &steps = *p.steps;
  std::vector<const Value*> inits, sums;
  for (size_t k = 0; k < steps.results.size(); ++k) {
    inits.push_back(steps.operands[3 + k]);
    sums.push_back(steps.results[k]);
  }
  const std::string tile = names_.fresh("", "Tile"), sums_type = struct_of("Sums", sums),
                    row_type = struct_of("OfRow", p.of_row), column_type = struct_of("OfColumn", p.of_column);

  // Parameters of the functions.
  const std::string r = names_.fresh("", "r"), c = names_.fresh("", "c"), k = names_.fresh("", "k");
  open("");
  put("typedef " + tiling.type + " " + tile + ";");
  std::vector<std::string> trips;
  for (size_t outer = 0; outer + 2 < p.nest.size(); ++outer) trips.push_back(declare_trips(*p.nest[outer]));
  const std::string height = declare_trips(rows), width = names_.fresh("", "width");
  std::string across;
  declare_width(p, width, across);
  if (!p.rectangular) {
    across = names_.fresh("", "n");
    put("const i64 " + across + " = widest<kBlock>(" + height + ", " + width + ");");
  }
  const std::string down = names_.fresh("", "down"), right = names_.fresh("", "across"), w = names_.fresh("", "w");
  put("const i64 " + down + " = (" + height + " + " + tile + "::kRows - 1) / " + tile + "::kRows, " + right + " = (" +
      across + " + " + tile + "::kColumns - 1) / " + tile + "::kColumns;");
  const std::string order = names_.fresh("", "order"), of_rows = p.uneven == Side::row ? "true" : "false";
  if (!p.rectangular) {
    put("const WidthOrder " + order + " = width_order<kBlock, " + tile + "::kRows, " + tile + "::kColumns>(" + height +
        ", " + width + ", (int*)(appy_shared() + " + std::to_string(tiling.order_at) + "));");
  }
  std::string all = p.rectangular ? down + " * " + right : order + ".all()", inside = w;
  for (const std::string& n : trips) all += " * " + n;
  open("for (i64 " + w + " = blockIdx.x; " + w + " < " + all + "; " + w + " += gridDim.x)");
  if (!trips.empty()) {
    const std::string which = names_.fresh("", "q");
    put("const i64 " + which + " = quotient(" + w + ", " + down + " * " + right + ");");
    const std::vector<std::string> indices = declare_indices(which, trips);
    for (size_t d = 0; d < indices.size(); ++d) declare_variable(*p.nest[d], indices[d]);
    inside = w + " - " + which + " * " + down + " * " + right;
  }
  const std::string at = names_.fresh("", "at"), row = names_.fresh("", "row"), column = names_.fresh("", "column"),
                    n = names_.fresh("", "steps"), ends = names_.fresh("", "ends");
  if (p.rectangular) known_of_tile(p);
  if (p.uneven != Side::neither) {
    const std::string at_one = names_.fresh("", "e");
    value_function("const auto " + ends + " = [&](i64 " + at_one + ") -> StepRange", p,
                   {steps.operands[0], steps.operands[1]}, {{p.uneven == Side::row ? &rows : &columns, at_one}}, "");
    put("const auto " + order + " = uneven_order<" + of_rows + ", kMultiprocessors>(" + down + ", " + right + ", " +
        (p.uneven == Side::row ? height : across) + ", " + ends + ");");
  } else if (p.rectangular) {
    put("const EvenOrder " + order + " = {" + down + ", " + right + "};");
  }
  put("const TileAt " + at + " = " + order + ".at(" + inside + ");");
  put("const i64 " + row + " = " + at + ".down * " + tile + "::kRows, " + column + " = " + at + ".across * " + tile +
      "::kColumns;");
  if (!p.rectangular) {
    put("if (!any_reaches<kBlock>(" + row + ", " + tile + "::kRows, " + height + ", " + column + ", " + width +
        ")) continue;");
    known_of_tile(p);
  }
  if (p.uneven == Side::neither) {
    put("const EvenSteps " + n + " = {0, trips(" + argument(*steps.operands[0]) + ", " + argument(*steps.operands[1]) +
        ", " + argument(*steps.operands[2]) + ")};");
  } else {
    put("const auto " + n + " = uneven_steps<" + of_rows + ", kBlock>(" +
        (p.uneven == Side::row ? row + ", " + tile + "::kRows, " + height
                               : column + ", " + tile + "::kColumns, " + across) +
        ", " + ends + ");");
  }
  const std::string of_row = names_.fresh("", "ofRow"), of_column = names_.fresh("", "ofColumn"),
                    step = names_.fresh("", "step"), first = names_.fresh("", "first"), last = names_.fresh("", "last");
  const std::string row_and_step = " = [&](i64 " + r + ", i64 " + k + ") -> ",
                    column_and_step = " = [&](i64 " + c + ", i64 " + k + ") -> ",
                    element = " = [&](i64 " + r + ", i64 " + c;
  // Where a row has no column nothing says that what it would need is there.
  const bool may_be_empty = !p.rectangular && passes::Ranges(graph_).trips(columns).lo < 1;
  // In shared memory a step of sums that keep their order is a line: not for what is a line of another direction.
  const bool row_along = runs_along_steps(p, p.of_row, rows), column_along = runs_along_steps(p, p.of_column, columns);
  const bool row_ahead = !may_be_empty && (tiling.tensor || !row_along) && can_copy(p.of_row),
             column_ahead = (tiling.tensor || !column_along) && can_copy(p.of_column);
  if (row_ahead) {
    copy_function(of_row, tiling.tensor ? "double" : row_type, p, p.of_row, {{&rows, r}, {&steps, k}});
  } else {
    value_function("const auto " + of_row + row_and_step + row_type, p, p.of_row, {{&rows, r}, {&steps, k}},
                   may_be_empty ? "if (" + width + "(" + r + ") <= 0) return {};" : "");
  }
  if (column_ahead) {
    copy_function(of_column, tiling.tensor ? "double" : column_type, p, p.of_column, {{&columns, c}, {&steps, k}});
  } else {
    value_function("const auto " + of_column + column_and_step + column_type, p, p.of_column,
                   {{&columns, c}, {&steps, k}});
  }
  value_function("const auto " + first + element + ") -> " + sums_type, p, inits, {{&rows, r}, {&columns, c}});
  if (!tiling.tensor) tile_step(p, "const auto " + step, sums_type, row_type, column_type);
  const std::vector<const Value*> loads = loads_before_stores(p);
  const std::string held_type = struct_of("Held", loads), before = names_.fresh("", "before");
  value_function("const auto " + before + element + ") -> " + held_type, p, loads, {{&rows, r}, {&columns, c}});
  const std::string told = names_.fresh("", "sums"), held = names_.fresh("", "held");
  tile_end(p,
           "const auto " + last + element + ", const " + sums_type + "& " + told + ", const " + held_type + "& " +
               held + ")",
           told, loads, held, {{&rows, r}, {&columns, c}});
  const auto yes_or_no = [](bool yes) { return std::string(yes ? "true" : "false"); };
  std::string types =
      sums_type + ", " + row_type + ", " + column_type + ", " + yes_or_no(row_along) + ", " + yes_or_no(column_along);
  types += ", " + yes_or_no(row_ahead) + ", " + yes_or_no(column_ahead);
  if (tiling.tensor) types += ", " + yes_or_no(p.from_zero()) + ", " + (p.crossed ? "1" : "0");
  put(tile + "::run<" + types + ">(" + row + ", " + height + ", " + column + ", " + across + ", " + n + ", " + of_row +
      ", " + of_column + ", " + width + ", " + (tiling.tensor ? "" : step + ", ") + first + ", " + before + ", " +
      last + ");");
  close();
  close();
  level_ = level;
  loops_ = outer_loops;
}

/// What a step makes of the sums so far.
void Writer::tile_step(const Product& p, const std::string& name, const std::string& sums_type,
                       const std::string& row_type, const std::string& column_type) {
  const ir::Block& body = *p.steps->blocks[0];
  const std::string x = names_.fresh("", "x"), y = names_.fresh("", "y"), sums = names_.fresh("", "sums");
  open(name + " = [&](" + sums_type + "& " + sums + ", const " + row_type + "& " + x + ", const " + column_type + "& " +
       y + ")");
  const auto unpack = [&](const Value& v, const std::string& from, size_t k) {
    put("const " + std::string(type_of(v.type.dtype)) + " " + names_.of(v) + " = " + from + ".v" + std::to_string(k) +
        ";");
  };
  for (size_t k = 0; k < p.of_row.size(); ++k) unpack(*p.of_row[k], x, k);
  for (size_t k = 0; k < p.of_column.size(); ++k) unpack(*p.of_column[k], y, k);
  for (size_t k = 0; k + 1 < body.args.size(); ++k) unpack(*body.args[1 + k], sums, k);
  for (const Op* op = body.first; op != body.last; op = op->next) {
    if (op->result() && p.side(*op->result()) == Side::both) statement(*op);
  }
  for (size_t k = 0; k < body.last->operands.size(); ++k)
    put(sums + ".v" + std::to_string(k) + " = " + argument(*body.last->operands[k]) + ";");
  close(";");
}

/// Where the sums of a row and a column go.
void Writer::tile_end(const Product& p, const std::string& head, const std::string& sums,
                      const std::vector<const Value*>& loads, const std::string& held,
                      const std::vector<std::pair<const Op*, std::string>>& at) {
  open(head);
  for (const auto& [loop, index] : at)
    put("const i64 " + names_.of(*loop->blocks[0]->args[0]) + " = " + variable_at(*loop, index) + ";");
  const auto unpack = [&](const Value& v, const std::string& from, size_t k) {
    put("const " + std::string(type_of(v.type.dtype)) + " " + names_.of(v) + " = " + from + ".v" + std::to_string(k) +
        ";");
  };
  for (size_t k = 0; k < p.steps->results.size(); ++k) unpack(*p.steps->results[k], sums, k);
  for (size_t k = 0; k < loads.size(); ++k) unpack(*loads[k], held, k);
  Wanted wanted = wanted_at_end(p);
  for (const Value* v : loads) wanted.erase(v->op);
  write_wanted(p, wanted);
  close(";");
}

}  // namespace appy::gpu
