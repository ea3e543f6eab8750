#include <algorithm>
#include <vector>

#include "ir/op_printer.h"
#include "ir/text.h"

namespace appy::ir {

namespace {

/// Of a line with its location, so that the text is rarely copied as it grows.
constexpr size_t kLine = 80;

bool is_plain(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), plain);
}

class GraphPrinter {
 public:
  GraphPrinter(const Graph& graph, PrintOptions options)
      : graph_(graph), options_(options), ops_(graph), locs_(graph.locs.size()) {}

  std::string text() {
    out_.reserve(kLine * graph_.value_count());
    out_ += "region @" + (is_plain(graph_.name) ? graph_.name : quoted(graph_.name)) + "(";
    for (const Value* arg : graph_.body->args) {
      out_ += (arg->index ? ", " : "") + ops_.name(*arg) + ": " + to_string(arg->type);
      if (arg->range != Range{}) {
        out_ += " in [" + std::to_string(arg->range.lo) + ", " + std::to_string(arg->range.hi) + "]";
      }
    }
    out_ += ")";
    if (graph_.exact) out_ += " exact";
    if (graph_.may_alias) out_ += " may_alias";
    if (!graph_.auto_simd) out_ += " no_auto_simd";
    if (!graph_.inspectors) out_ += " no_inspectors";
    if (graph_.boxes) out_ += " boxes";
    if (graph_.registers != Graph().registers) out_ += " registers(" + std::to_string(graph_.registers) + ")";
    if (graph_.workers != 0) out_ += " workers(" + std::to_string(graph_.workers) + ")";
    if (graph_.cache != 0) out_ += " cache(" + std::to_string(graph_.cache) + ")";
    if (!graph_.given.empty()) out_ += " given(" + given() + ")";
    const auto name = [&](uint32_t parameter) { return ops_.name(*graph_.body->args[parameter]); };
    const auto length = [&](const Length& l) {
      return (l.dim < 0 ? "" : "dim " + std::to_string(l.dim) + " ") + name(l.parameter);
    };
    if (const auto& solve = graph_.solve) {
      out_ += " solves(" + name(solve->matrix) + ", " + name(solve->x) + ", " + name(solve->b) + ", " +
              length(solve->rows) + (solve->transposed ? ", transposed" : "") + (solve->unit ? ", unit)" : ")");
    }
    if (const auto& factorization = graph_.factorization) {
      out_ += " factors(" + name(factorization->matrix) + ", " + length(factorization->columns) +
              (factorization->transposed ? ", transposed" : "") + (factorization->blocked ? ", blocked)" : ")");
    }
    if (!graph_.result_names.empty()) {
      out_ += " results(";
      for (size_t i = 0; i < graph_.result_names.size(); ++i) {
        out_ += (i ? ", " : "") + quoted(graph_.result_names[i]);
      }
      out_ += ")";
    }
    out_ += " {\n";
    block(*graph_.body, 1);
    out_ += "}\n";
    for (size_t i = 0; options_.remarks && i < graph_.remarks.size(); ++i) remark(graph_.remarks[i]);
    return std::move(out_);
  }

 private:
  std::string given() const {
    std::string text;
    for (const Value* arg : graph_.body->args) {
      const Word* word = &graph_.given[first_word(graph_, arg->index)];
      const auto number = [&] { return std::to_string(static_cast<int64_t>(*word)); };
      text += arg->index > 0 ? ", " : "";
      if (!arg->type.is_view()) {
        text += number();
        continue;
      }
      text += "[";
      for (int d = 0; d < arg->type.rank; ++d) {
        ++word;
        text += (d > 0 ? ", " : "") + number();
      }
      text += "]";
    }
    return text;
  }

  void indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  void block(const Block& block, int depth) {
    for (const Op* op = block.first; op; op = op->next) {
      indent(depth);
      ops_.line(*op, out_);
      if (options_.locs && op->loc) location(op->loc);
      for (size_t i = 0; i < op->blocks.size(); ++i) {
        if (i) indent(depth);
        out_ += i ? "} else {\n" : " {\n";
        this->block(*op->blocks[i], depth + 1);
      }
      if (!op->blocks.empty()) {
        indent(depth);
        out_ += "}";
      }
      out_ += "\n";
    }
  }

  void remark(const Remark& r) {
    out_ += std::string("remark ") + (r.severity == Severity::warning ? "warning " : "note ") + quoted(r.stage) +
            " : " + quoted(r.text);
    if (options_.locs && r.loc) location(r.loc);
    out_ += "\n";
  }

  void location(LocId id) {
    const bool known = id < locs_.size();  // verify() has not looked at it
    const bool repeats = known && file_ == graph_.locs[id].file;
    if (repeats && !locs_[id].empty()) {
      out_ += locs_[id];
      return;
    }
    const std::string text = " " + ops_.loc(id, file_);
    if (repeats && file_ == graph_.locs[id].file) locs_[id] = text;
    out_ += text;
  }

  const Graph& graph_;
  const PrintOptions options_;
  const OpPrinter ops_;
  std::string out_;
  std::string file_;               // of the location before
  std::vector<std::string> locs_;  // texts of those that begin and end in the file of the one before
};

}  // namespace

std::string print(const Graph& graph, PrintOptions options) { return GraphPrinter(graph, options).text(); }

}  // namespace appy::ir
