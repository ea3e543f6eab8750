// Items of tensor pragmas: the statement that is traced, and what its items are at entry.
#include <algorithm>
#include <charconv>
#include <string_view>

#include "runtime/device_arrays.h"
#include "trace/recorder.h"

namespace appy::trace {

using bytecode::Instruction;

/// Which statement the instruction belongs to; those of helper functions belong to the statement that calls.
void Recorder::follow_statement(const Instruction& i) {
  if (frame_->function >= 0 || !i.position.line) return;
  const int line = i.position.line;
  if (placed_ && line >= placed_->line && line <= placed_->end_line) return;
  placed_ = nullptr;
  for (const pragma::Placed& p : region_.pragmas) {
    if (!p.pragma.items.empty() && line >= p.line && line <= p.end_line) placed_ = &p;
  }
}

const pragma::NamedSlice* Recorder::named_slice(const Instruction& i) const {
  if (!placed_ || frame_->function >= 0) return nullptr;
  const bytecode::Position& at = i.position;
  for (const pragma::NamedSlice& s : placed_->slices) {
    if (s.line == at.line && s.column == at.column && s.end_line == at.end_line && s.end_column == at.end_column) {
      return &s;
    }
  }
  return nullptr;
}

Statement* Recorder::statement() { return placed_ ? &statement_of(*placed_) : nullptr; }

std::string Recorder::variable_of(const Traced& array) const {
  if (array.input >= 0) return signature_.inputs[static_cast<size_t>(array.input)].name;
  for (size_t k = 0; k < static_cast<size_t>(region_.code->co_nlocalsplus); ++k) {
    const Slot& s = slots_[k];
    const bool holds = s.kind == Slot::Kind::value && s.traced.kind == Kind::array && s.traced.value == array.value;
    if (holds) return variable_name(static_cast<int>(k));
  }
  return {};
}

namespace {

/// The value of an integer, of a name that `value` knows, or of a sum or difference of two of these: most of what
/// bounds in pragmas are, without Python's compiler.
template <class F>
std::optional<int64_t> simple_value(std::string_view expression, F&& value) {
  constexpr std::string_view blank = " \t";
  const auto trimmed = [&](std::string_view text) {
    const size_t begin = std::min(text.find_first_not_of(blank), text.size());
    return text.substr(begin, text.find_last_not_of(blank) + 1 - begin);
  };
  const auto operand = [&](std::string_view text) -> std::optional<int64_t> {
    text = trimmed(text);
    const bool digits = text.find_first_not_of("0123456789") == std::string_view::npos;
    if (!digits || text.empty()) return value(text);
    int64_t number = 0;
    const bool plain = text.size() < 19 && (text[0] != '0' || text.size() == 1);
    if (!plain) return {};
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  };
  const size_t at = expression.find_first_of("+-");
  const std::optional<int64_t> left = operand(expression.substr(0, at));
  if (!left || at == std::string_view::npos) return left;
  const std::optional<int64_t> right = operand(expression.substr(at + 1));
  int64_t sum = 0;
  if (!right || (expression[at] == '+' ? __builtin_add_overflow(*left, *right, &sum)
                                       : __builtin_sub_overflow(*left, *right, &sum)))
    return {};
  return sum;
}

}  // namespace

/// The integer that the expression is at entry, with the names of dim_info; nothing where it has no value.
std::optional<int64_t> Recorder::entry_number(const std::string& expression, const pragma::Placed& placed) {
  if (expression.find('(') != std::string::npos) return {};  // nothing is called for a hint
  const Ref names = entry_names();
  for (const pragma::ExtentName& e : placed.extents) {
    PyObject* array = names ? PyDict_GetItemString(names.get(), e.array.c_str()) : nullptr;
    if (!array || PyDict_GetItemString(names.get(), e.name.c_str())) continue;
    int64_t extents[runtime::ForeignArray::max_rank];
    if (e.axis >= runtime::extents_of(array, extents)) continue;
    const Ref extent = Ref::steal(PyLong_FromLongLong(extents[e.axis]));
    if (extent) PyDict_SetItemString(names.get(), e.name.c_str(), extent.get());
  }
  const std::optional<int64_t> number = value_of(expression, names.get());
  if (!number) PyErr_Clear();
  return number;
}

/// The integer that the expression is with these names and the frame's globals; nothing where Python has an error.
std::optional<int64_t> Recorder::value_of(const std::string& expression, PyObject* names) const {
  const auto known = [&](std::string_view name) -> std::optional<int64_t> {
    const Ref key = Ref::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    if (!key) PyErr_Clear();
    PyObject* found = key && names ? PyDict_GetItem(names, key.get()) : nullptr;
    if (!found && key) found = PyDict_GetItem(scope_.globals, key.get());
    int overflow = 1;
    const int64_t number = found && PyLong_CheckExact(found) ? PyLong_AsLongLongAndOverflow(found, &overflow) : 0;
    return overflow ? std::nullopt : std::optional(number);
  };
  if (const std::optional<int64_t> number = simple_value(expression, known)) return number;
  const Ref value =
      Ref::steal(names ? PyRun_String(expression.c_str(), Py_eval_input, scope_.globals, names) : nullptr);
  const Ref index = Ref::steal(value ? PyNumber_Index(value.get()) : nullptr);
  const int64_t number = index ? PyLong_AsLongLong(index.get()) : 0;
  return PyErr_Occurred() ? std::nullopt : std::optional(number);
}

Statement& Recorder::statement_of(const pragma::Placed& placed) {
  std::unique_ptr<Statement>& made = statements_[&placed];
  if (made) return *made;
  made = std::make_unique<Statement>();
  made->placed = &placed;
  const ir::LocId here = builder_.loc();
  builder_.set_loc(loc_of(placed));
  const auto argument = [&](const std::optional<pragma::IntArg>& a, const std::string& what) -> int64_t {
    if (!a || a->text.empty()) return a ? a->value : 0;
    const std::optional<int64_t> value = entry_number(a->text, placed);
    if (value && *value > 0) return *value;
    remark(ir::Severity::warning, what + "(" + a->text + ") is ignored: it is no positive integer at entry");
    return 0;
  };
  for (size_t k = 0; k < placed.pragma.items.size(); ++k) {
    const pragma::TensorItem& text = placed.pragma.items[k];
    Statement::Item& item = made->items.emplace_back();
    item.text = &text;
    item.le = argument(text.le, "le");
    item.block = argument(text.block, "block");
    item.found = std::any_of(placed.slices.begin(), placed.slices.end(), [&](const pragma::NamedSlice& s) {
      return s.line > 0 && std::find(s.items.begin(), s.items.end(), static_cast<int>(k)) != s.items.end();
    });
    const size_t colon = text.dim.find(':');
    if (text.dim.find_first_not_of("0123456789") == std::string::npos) {
      item.position = text.dim.size() < 3 ? std::stoi(text.dim) : 99;
    } else if (colon == std::string::npos) {
      item.extent = entry_number(text.dim, placed);
    } else if (const std::string stop = text.dim.substr(colon + 1); !stop.empty()) {
      const std::string start = text.dim.substr(0, colon);
      const std::optional<int64_t> high = entry_number(stop, placed);
      const std::optional<int64_t> low = start.empty() ? 0 : entry_number(start, placed);
      // From the end: only the text can say of which dimension.
      if (high && low && *low >= 0 && *high >= *low) item.extent = *high - *low;
    }
  }
  builder_.set_loc(here);
  return *made;
}

ir::LocId Recorder::loc_of(const pragma::Placed& placed) {
  const int line = placed.pragma_line ? placed.pragma_line : placed.line;
  return graph_->add_loc({region_frame_.file, line, 0, 0});
}

/// Warns of items that name nothing, or say something else than the statement does.
void Recorder::review_items() {
  for (const pragma::Placed& placed : region_.pragmas) {
    const auto found = statements_.find(&placed);
    if (found == statements_.end()) continue;
    builder_.set_loc(loc_of(placed));
    for (std::string& text : review(*found->second)) remark(ir::Severity::warning, std::move(text));
  }
}

}  // namespace appy::trace
