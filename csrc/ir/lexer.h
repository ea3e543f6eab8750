// Tokens of the graph's text form, with positions.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace appy::ir {

struct Token {
  enum class Kind : uint8_t { end, word, value, region, number, string, punctuation } kind = Kind::end;
  std::string_view text;  // without '%', '@' and quotes; escapes resolved
  int line = 1;
  int column = 1;
};

/// Its tokens look into the text, and into the lexer where strings have escapes: both outlive them.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return token_; }
  Token take();
  /// Throws ParseError "line L, column C: expected <what>, got ...".
  [[noreturn]] void expected(std::string_view what) const { expected(what, token_); }
  [[noreturn]] static void expected(std::string_view what, const Token& got);
  [[noreturn]] static void fail(const Token& at, const std::string& message);

  bool is(Token::Kind kind, std::string_view text) const { return token_.kind == kind && token_.text == text; }
  bool is(char c) const { return is(Token::Kind::punctuation, std::string_view(&c, 1)); }
  /// Takes the token if it is this character / this word.
  bool accept(char c);
  bool accept(std::string_view word);
  void expect(char c);
  void expect(std::string_view word);
  Token expect(Token::Kind, std::string_view what);
  /// An integer with an optional sign, in the range of i64.
  int64_t integer(std::string_view what, int64_t lo = INT64_MIN, int64_t hi = INT64_MAX);

 private:
  void advance();
  void skip_blank();
  void lex_string();
  std::string unescaped(std::string_view);
  char at(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }

  std::string_view text_;
  size_t position_ = 0;
  size_t line_begin_ = 0;
  int line_ = 1;
  Token token_;
  std::deque<std::string> unescaped_;  // what tokens look into
};

}  // namespace appy::ir
