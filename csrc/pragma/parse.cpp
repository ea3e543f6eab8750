// Recursive descent over the text of a pragma. docs/language.md gives the grammar.
#include <algorithm>
#include <array>
#include <cctype>

#include "pragma/pragma.h"

namespace appy::pragma {
namespace {

constexpr std::array<std::string_view, 13> reduction_ops = {"sum", "prod", "max", "min", "argmax", "argmin", "any",
                                                            "all", "&",    "|",   "^",   "+",      "*"};

bool word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80); }
bool word_char(char c) { return word_start(c) || std::isdigit(static_cast<unsigned char>(c)); }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Pragma run() {
    skip_space();
    if (at_end()) fail("a pragma: parallel for, simd, sequential for, atomic or `slice=>property`");
    while (!at_end()) {
      if (starts_item())
        result_.items.push_back(item());
      else
        loop_word();
      skip_space();
    }
    if (result_.loop) finish_loop();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const { fail_at(at_, expected); }
  [[noreturn]] void fail_at(size_t at, const std::string& expected) const {
    throw SyntaxError(static_cast<int>(at), expected);
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  void skip_space() {
    while (!at_end() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }
  std::string word(const char* what) {
    skip_space();
    if (!word_start(peek())) fail(what);
    size_t start = at_;
    while (word_char(peek())) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  // An item is anything up to a `=>` on the same nesting level that no loop word or clause starts.
  bool starts_item() const {
    size_t i = at_;
    if (word_start(peek())) {
      size_t j = i;
      while (j < text_.size() && word_char(text_[j])) ++j;
      std::string_view first = text_.substr(i, j - i);
      if (is_loop_word(first) || is_clause(first)) {
        // `le:n=>…` names a dimension; `le(4)`, `parallel for` and `atomic :n=>…` do not.
        if (j >= text_.size() || (text_[j] != ':' && text_[j] != '=')) return false;
      }
    }
    int depth = 0;
    for (; i < text_.size(); ++i) {
      char c = text_[i];
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      if (depth == 0 && text_.substr(i, 2) == "=>") return true;
      if (c == '\n' && depth == 0) return false;
    }
    return false;
  }

  static bool is_loop_word(std::string_view w) {
    return w == "parallel" || w == "for" || w == "simd" || w == "sequential" || w == "single" || w == "atomic";
  }
  static bool is_clause(std::string_view w) {
    return w == "shared" || w == "private" || w == "reduction" || w == "collapse" || w == "num_threads" ||
           w == "schedule" || w == "block" || w == "le" || w == "reduce";
  }

  LoopPragma& loop() {
    if (!result_.loop) result_.loop.emplace();
    return *result_.loop;
  }

  void loop_word() {
    accept(',');
    skip_space();
    size_t start = at_;
    std::string w = word("a loop pragma (parallel, for, simd, sequential, atomic), a clause or `slice=>property`");
    if (w == "parallel") {
      loop().parallel = true;
      named_ = true;
    } else if (w == "simd") {
      loop().simd = true;
      named_ = true;
    } else if (w == "sequential") {
      loop().sequential = true;
      named_ = true;
    } else if (w == "for") {
      loop();
    } else if (w == "single") {
      loop().sequential = true;
    } else if (w == "atomic") {
      result_.atomic = true;
    } else if (is_clause(w)) {
      clause(w, start);
    } else {
      fail_at(start,
              "one of parallel, for, simd, sequential, atomic, shared, private, reduction, collapse, "
              "num_threads, schedule, block, le; found '" +
                  w + "'");
    }
  }

  void clause(const std::string& name, size_t start) {
    LoopPragma& l = loop();
    if (name == "le" && (skip_space(), peek() != '(')) fail("'(' and the largest trip count after `le`");
    expect('(');
    if (name == "shared" || name == "private") {
      auto& list = name == "shared" ? l.shared : l.private_;
      for (auto& n : names()) list.push_back(std::move(n));
    } else if (name == "reduction" || name == "reduce") {
      ReductionClause r;
      r.op = reduction_op();
      expect(':');
      r.names = names();
      l.reductions.push_back(std::move(r));
    } else if (name == "schedule") {
      skip_space();
      size_t at = at_;
      std::string kind = word("static or dynamic");
      if (kind == "static")
        l.schedule = LoopPragma::Schedule::statically;
      else if (kind == "dynamic" || kind == "guided")
        l.schedule = LoopPragma::Schedule::dynamic;
      else if (kind != "auto")
        fail_at(at, "static or dynamic");
      if (accept(',')) l.chunk = integer();
    } else if (name == "collapse") {
      l.collapse = integer();
    } else if (name == "num_threads") {
      l.threads = integer();
    } else if (name == "block") {
      l.block = integer();
    } else if (name == "le") {
      l.le = integer();
    } else {
      fail_at(start, "a clause");
    }
    expect(')');
  }

  std::vector<std::string> names() {
    std::vector<std::string> out;
    do out.push_back(word("a name"));
    while (accept(','));
    return out;
  }

  std::string reduction_op() {
    skip_space();
    size_t start = at_;
    std::string op;
    if (word_start(peek()))
      op = word("a reduction");
    else if (!at_end())
      op = text_[at_++];
    if (std::find(reduction_ops.begin(), reduction_ops.end(), op) == reduction_ops.end())
      fail_at(start, "a reduction: sum + prod * max min argmax argmin any all & | ^");
    if (op == "+") return "sum";
    if (op == "*") return "prod";
    return op;
  }

  // An integer expression up to the `,` or `)` that ends it.
  IntArg integer() {
    skip_space();
    size_t start = at_;
    int depth = 0;
    for (; !at_end(); ++at_) {
      char c = text_[at_];
      if (c == '(' || c == '[') ++depth;
      if (c == ']' || (c == ')' && depth > 0))
        --depth;
      else if ((c == ')' || c == ',') && depth == 0)
        break;
      if (!(word_char(c) || std::string_view(" .+-*/%()[],\n").find(c) != std::string_view::npos))
        fail("an integer expression");
    }
    std::string_view raw = text_.substr(start, at_ - start);
    while (!raw.empty() && raw.back() == ' ') raw.remove_suffix(1);
    if (raw.empty()) fail_at(start, "an integer");
    IntArg arg;
    bool digits =
        std::all_of(raw.begin(), raw.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)); });
    if (digits) {
      if (raw.size() > 18) fail_at(start, "an integer below 10**18");
      for (char c : raw) arg.value = arg.value * 10 + (c - '0');
      if (arg.value == 0) fail_at(start, "a positive integer");
    } else {
      arg.text = std::string(raw);
    }
    return arg;
  }

  TensorItem item() {
    TensorItem it;
    int depth = 0;
    size_t start = at_;
    while (depth > 0 || text_.substr(at_, 2) != "=>") {
      char c = text_[at_++];
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      if (!std::isspace(static_cast<unsigned char>(c))) it.dim += c;
    }
    if (size_t eq = it.dim.find('='); eq != std::string::npos) it.dim.erase(0, eq + 1);
    if (it.dim.empty()) fail_at(start, "a slice, a position or a name before '=>'");
    at_ += 2;
    do property(it);
    while (next_property());
    it.text = std::string(text_.substr(start, at_ - start));
    while (!it.text.empty() && (it.text.back() == ' ' || it.text.back() == ',')) it.text.pop_back();
    return it;
  }

  // A comma followed by another property of this item; a comma before the next item is skipped.
  bool next_property() {
    size_t saved = at_;
    if (!accept(',')) return false;
    skip_space();
    if (starts_property() || !starts_item()) return true;
    size_t comma = text_.find(',', saved);
    at_ = comma + 1;
    return false;
  }

  /// A property's name that is not the first word of a slice, as in `le:n`.
  bool starts_property() const {
    constexpr std::array<std::string_view, 8> names = {"parallel", "simd",      "le",     "single_block",
                                                       "block",    "reduction", "reduce", "in_reg"};
    size_t end = at_;
    while (end < text_.size() && word_char(text_[end])) ++end;
    if (std::find(names.begin(), names.end(), text_.substr(at_, end - at_)) == names.end()) return false;
    if (end == text_.size() || text_[end] != '(')
      return end == text_.size() || text_[end] == ',' || text_[end] == ' ' || text_[end] == '\n';
    return true;
  }

  void property(TensorItem& it) {
    skip_space();
    size_t start = at_;
    std::string w = word("a property: parallel, simd, reduction(op), le, single_block, block(n) or in_reg");
    if (w == "parallel") {
      it.parallel = true;
    } else if (w == "simd") {
      it.simd = true;
    } else if (w == "single_block") {
      it.single_block = true;
    } else if (w == "in_reg") {
      it.in_reg = true;
    } else if (w == "le" || w == "block") {
      auto& arg = w == "le" ? it.le : it.block;
      arg.emplace();
      if (accept('(')) {
        arg = integer();
        expect(')');
      }
      if (w == "block" && arg->value == 0 && arg->text.empty()) it.simd = true;  // the older dialect's `block`
    } else if (w == "reduction" || w == "reduce") {
      expect('(');
      do {
        ItemReduction& r = it.reductions.emplace_back();
        r.op = reduction_op();
        if (accept(':')) r.target = word("the reduction's target");
      } while (accept(','));
      expect(')');
    } else {
      fail_at(start,
              "a property: parallel, simd, reduction(op), le, single_block, block(n) or in_reg; found '" + w + "'");
    }
  }

  void finish_loop() {
    LoopPragma& l = *result_.loop;
    if (l.sequential) l.parallel = l.simd = false;
    if (result_.atomic) fail_at(0, "either a loop pragma or `atomic`, not both");
    if (!result_.items.empty()) fail_at(0, "either a loop pragma or `slice=>property` items, not both");
    if (!named_ && !l.sequential) fail_at(0, "parallel, simd or sequential before `for` and its clauses");
  }

  std::string_view text_;
  size_t at_ = 0;
  bool named_ = false;
  Pragma result_;
};

}  // namespace

Pragma parse(std::string_view text) { return Parser(text).run(); }

}  // namespace appy::pragma
