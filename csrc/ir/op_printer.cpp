#include "ir/op_printer.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "ir/half.h"
#include "ir/typing.h"

namespace appy::ir {

namespace {

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::strided:
      return "strided";
    case Layout::inner:
      return "inner";
    case Layout::c:
      return "c";
    case Layout::f:
      return "f";
    case Layout::pairs:
      return "pairs";
  }
  return "?";
}

template <class T>
std::string shortest(T value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string hex(Word w) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(w));
  return buffer;
}

template <class T, class Bits>
std::string real_text(Bits bits, Bits quiet_nan) {
  const T value = std::bit_cast<T>(bits);
  if (std::isnan(value)) return bits == quiet_nan ? "nan" : "nan(" + hex(bits) + ")";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return shortest(value);
}

/// The digits that its value needs as a float: they read back to it.
std::string half_text(DType type, Word word) {
  const auto value = static_cast<float>(half_value(type, word));
  if (std::isnan(value)) return word == quiet_nan(type) ? "nan" : "nan(" + hex(word) + ")";
  return real_text<float, uint32_t>(std::bit_cast<uint32_t>(value), 0);
}

/// What may stand after '%': letters, digits, '_', '.', and bytes of UTF-8, no digit in front.
std::string identifier(std::string_view name) {
  std::string text;
  for (char c : name) {
    const auto u = static_cast<unsigned char>(c);
    const bool letter = (u | 32) >= 'a' && (u | 32) <= 'z';
    const bool fine = letter || (u >= '0' && u <= '9') || u == '_' || u == '.' || u >= 0x80;
    text += fine ? c : '_';
  }
  if (!text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '.')) text.insert(0, 1, '_');
  return text;
}

/// The access with one entry a distinct term that has a coefficient, in the order in which the text shows them.
struct TermRow {
  const Value* term;
  std::vector<int64_t> coef;  // [rank]
};

std::vector<TermRow> term_rows(const Op& op) {
  const Access& access = *op.access;
  std::vector<TermRow> merged;
  const size_t first = op.first_term();
  for (size_t k = 0; k < static_cast<size_t>(access.terms); ++k) {
    const Value* term = op.operands[first + k];
    auto at = std::find_if(merged.begin(), merged.end(), [&](const TermRow& r) { return r.term == term; });
    if (at == merged.end()) at = merged.insert(at, {term, std::vector<int64_t>(access.coef.size(), 0)});
    for (size_t d = 0; d < access.coef.size(); ++d) {
      const auto sum = static_cast<uint64_t>(at->coef[d]) + static_cast<uint64_t>(access.coef[d][k]);
      at->coef[d] = static_cast<int64_t>(sum);
    }
  }
  const auto first_row = [](const TermRow& r) {
    return std::find_if(r.coef.begin(), r.coef.end(), [](int64_t c) { return c != 0; }) - r.coef.begin();
  };
  std::stable_sort(merged.begin(), merged.end(),
                   [&](const TermRow& a, const TermRow& b) { return first_row(a) < first_row(b); });
  return merged;
}

uint64_t magnitude(int64_t v) { return v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }

}  // namespace

std::string to_string(const Type& type) {
  std::string text(name_of(type.dtype));
  if (type.is_view()) text += "[" + std::to_string(type.rank) + "," + std::string(layout_name(type.layout)) + "]";
  return text;
}

std::string to_string(DType type, Word word) {
  if (word != canonical(type, word)) return hex(word);
  switch (class_of(type)) {
    case TypeClass::boolean:
      return word ? "true" : "false";
    case TypeClass::sint:
      return std::to_string(static_cast<int64_t>(word));
    case TypeClass::uint:
      return std::to_string(word);
    case TypeClass::real:
      break;
  }
  if (is_half(type)) return half_text(type, word);
  if (type == DType::f32_) return real_text<float>(static_cast<uint32_t>(word), static_cast<uint32_t>(quiet_nan(type)));
  return real_text<double>(word, quiet_nan(type));
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (u < 0x20 || u == 0x7f) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\x%02x", u);
      out += buffer;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

OpPrinter::OpPrinter(const Graph& graph) : graph_(graph), names_(graph.value_count()) { name_block(*graph.body); }

void OpPrinter::name_block(const Block& block) {
  for (const Value* arg : block.args) name_value(*arg);
  for (const Op* op = block.first; op; op = op->next) {
    for (const Value* result : op->results) name_value(*result);
    for (const Block* inner : op->blocks) name_block(*inner);
  }
}

void OpPrinter::name_value(const Value& value) {
  if (value.id >= names_.size()) return;
  std::string& name = names_[value.id];
  if (value.name.empty()) {
    name = std::to_string(next_number_++);
    return;
  }
  const std::string base = identifier(value.name);
  name = base;
  while (!taken_.try_emplace(name, 1).second) name = base + "." + std::to_string(taken_[base]++);
}

std::string OpPrinter::name(const Value& value) const {
  std::string text;
  name(value, text);
  return text;
}

void OpPrinter::name(const Value& value, std::string& text) const {
  if (value.id >= names_.size() || names_[value.id].empty()) {
    text += "%?" + std::to_string(value.id);
  } else {
    text += '%';
    text += names_[value.id];
  }
}

void OpPrinter::names(std::span<Value* const> values, std::string& text) const {
  for (size_t k = 0; k < values.size(); ++k) {
    if (k) text += ", ";
    if (values[k]) {
      name(*values[k], text);
    } else {
      text += "%?";
    }
  }
}

std::string OpPrinter::loc(LocId id, std::string& file) const {
  std::string text;
  size_t depth = 0;
  for (; id != 0 && id < graph_.locs.size() && depth < graph_.locs.size(); id = graph_.locs[id].inlined_at, ++depth) {
    const Loc& at = graph_.locs[id];
    text += text.empty() ? "loc(" : " inlined at ";
    if (at.file != file || file.empty()) text += quoted(at.file);
    file = at.file;
    text += ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
  }
  return text.empty() ? text : text + ")";
}

std::string OpPrinter::subscripts(const Op& op) const {
  std::string text;
  subscripts(op, text);
  return text;
}

void OpPrinter::subscripts(const Op& op, std::string& text) const {
  const bool terms = op.access && op.access->terms >= 0 && op.operands.size() >= static_cast<size_t>(op.access->terms);
  const auto fits = [&](const Access::Row& row) { return row.size() == static_cast<size_t>(op.access->terms); };
  if (!terms || op.access->offset.size() != op.access->coef.size() ||
      !std::all_of(op.access->coef.begin(), op.access->coef.end(), fits)) {
    text += "[?]";
    return;
  }
  const std::vector<TermRow> rows = term_rows(op);
  text += '[';
  for (size_t d = 0; d < op.access->offset.size(); ++d) {
    if (d) text += ", ";
    bool first = true;
    const auto sign = [&](int64_t v) {
      if (std::exchange(first, false)) {
        text += v < 0 ? "-" : "";
      } else {
        text += v < 0 ? " - " : " + ";
      }
    };
    for (const TermRow& r : rows) {
      const int64_t c = r.coef[d];
      if (c == 0) continue;
      sign(c);
      if (magnitude(c) != 1) text += std::to_string(magnitude(c)) + "*";
      name(*r.term, text);
    }
    const int64_t offset = op.access->offset[d];
    if (offset == 0 && !first) continue;
    sign(offset);
    text += std::to_string(magnitude(offset));
  }
  text += ']';
}

void OpPrinter::loop_head(const Op& op, std::string& text) const {
  const std::span<Value* const> args = op.blocks.empty() ? std::span<Value* const>() : op.blocks[0]->args;
  const size_t skip = op.code == Opcode::for_ ? 1 : 0;
  const size_t bounds = op.code == Opcode::for_ ? 3 : 0;
  if (op.loop) {
    const Loop& loop = *op.loop;
    if (loop.parallel) text += " parallel";
    if (loop.simd) text += " simd";
    if (loop.annotated) text += " annotated";
    if (loop.schedule != Schedule::automatic || loop.chunk != 0) {
      constexpr const char* kNames[] = {"automatic", "static", "dynamic"};
      text += std::string(" schedule(") + kNames[static_cast<size_t>(loop.schedule)];
      if (loop.chunk != 0) text += ", " + std::to_string(loop.chunk);
      text += ")";
    }
    if (loop.le != 0) text += " le(" + std::to_string(loop.le) + ")";
    if (loop.threads != 0) text += " threads(" + std::to_string(loop.threads) + ")";
    if (loop.collapse != 1) text += " collapse(" + std::to_string(loop.collapse) + ")";
  }
  if (op.mapping != Mapping::none) text += " mapped(" + std::string(name_of(op.mapping)) + ")";
  if (op.loop && op.loop->tiles) text += " tiles";
  if (skip && op.operands.size() >= bounds && !args.empty()) {
    constexpr const char* kBefore[] = {" = ", " to ", " step "};
    text += ' ';
    name(*args[0], text);
    for (size_t k = 0; k < bounds; ++k) {
      text += kBefore[k];
      name(*op.operands[k], text);
    }
  }
  if (op.operands.size() <= bounds) return;
  text += " carry(";
  for (size_t k = 0; bounds + k < op.operands.size(); ++k) {
    if (k) text += ", ";
    if (op.loop && k < op.loop->carried.size()) {
      const Carried& carried = op.loop->carried[k];
      const bool indexed = carried.leader >= 0 || carried.tie >= 0;
      if (carried.combiner != Combiner::recur_ || indexed) text += std::string(name_of(carried.combiner));
      if (indexed) {
        text += "(";
        if (carried.leader >= 0) text += "leader " + std::to_string(carried.leader);
        if (carried.leader >= 0 && carried.tie >= 0) text += " ";
        if (carried.tie >= 0) text += "tie " + std::to_string(carried.tie);
        text += ")";
      }
      if (carried.combiner != Combiner::recur_ || indexed) text += " ";
    }
    text += skip + k < args.size() ? name(*args[skip + k]) : "%?";
    text += " = ";
    name(*op.operands[bounds + k], text);
  }
  text += ')';
}

void OpPrinter::check(const Op& op, std::string& text) const {
  if (!op.check || op.operands.empty()) {
    text += " ?";
    return;
  }
  const Check& check = *op.check;
  const std::span<Value* const> rest = std::span<Value* const>(op.operands).subspan(1);
  const size_t ninfo = std::min(rest.size(), static_cast<size_t>(std::max(check.ninfo, 0)));
  const auto group = [&](const char* head, std::span<Value* const> values) {
    text += head;
    names(values, text);
    text += ')';
  };
  text += ' ';
  text += name_of(check.kind);
  text += ' ';
  name(*op.operands[0], text);
  if (ninfo) group(" info(", rest.first(ninfo));
  if (check.has_state || rest.size() > ninfo) group(" state(", rest.subspan(ninfo));
  if (check.declines) text += " declines";
  if (!check.text.empty()) text += " : " + quoted(check.text);
}

std::string OpPrinter::line(const Op& op) const {
  std::string text;
  line(op, text);
  return text;
}

void OpPrinter::line(const Op& op, std::string& text) const {
  if (!op.results.empty()) {
    names(op.results, text);
    text += " = ";
  }
  text += info(op.code).name;
  const bool memory = op.code == Opcode::load_ || op.code == Opcode::store_ || op.code == Opcode::atomic_;
  if (memory && op.operands.size() < (op.code == Opcode::load_ ? 1u : 2u)) {
    text += " ?";
    return;
  }
  const auto operands = [&](std::span<Value* const> values) {
    if (!values.empty()) text += ' ';
    names(values, text);
  };
  switch (op.code) {
    case Opcode::const_:
      text += ' ';
      text += op.results.empty() ? "?" : to_string(op.results[0]->type.dtype, op.imm);
      break;
    case Opcode::dim_:
      text += " " + std::to_string(op.dim);
      operands(op.operands);
      break;
    case Opcode::alloc_:
      operands(op.operands);
      text += " slot " + std::to_string(op.slot) + (op.escapes ? " escapes" : "");
      if (op.lead != 0) text += " lead " + std::to_string(op.lead);
      break;
    case Opcode::load_:
      operands(std::span(op.operands).first(1));
      subscripts(op, text);
      break;
    case Opcode::atomic_:
      text += ' ';
      text += name_of(op.combiner);
      [[fallthrough]];
    case Opcode::store_:
      operands(std::span(op.operands).first(2));
      subscripts(op, text);
      break;
    case Opcode::check_:
      check(op, text);
      break;
    case Opcode::poll_:
      if (op.operands.empty()) break;
      text += " state(";
      names(op.operands, text);
      text += ')';
      break;
    case Opcode::barrier_:
      text += ' ';
      text += name_of(op.mapping);
      break;
    case Opcode::for_:
    case Opcode::while_:
      loop_head(op, text);
      break;
    default:
      operands(op.operands);
  }
  for (size_t i = 0; i < op.results.size(); ++i) text += (i ? ", " : " : ") + to_string(op.results[i]->type);
}

}  // namespace appy::ir
