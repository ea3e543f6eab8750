#include "ir/lexer.h"

#include <charconv>

#include "ir/op_printer.h"
#include "ir/text.h"

namespace appy::ir {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_digit(c) || is_letter(c) || c == '.' || static_cast<unsigned char>(c) >= 0x80; }

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::end:
      return "the end of the text";
    case Token::Kind::value:
      return "%" + token.text;
    case Token::Kind::region:
      return "@" + token.text;
    case Token::Kind::string:
      return quoted(token.text);
    case Token::Kind::punctuation:
      return "'" + token.text + "'";
    default:
      return token.text;
  }
}

}  // namespace

void Lexer::fail(const Token& at, const std::string& message) {
  throw ParseError("line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": " + message);
}

void Lexer::expected(const std::string& what, const Token& got) {
  fail(got, "expected " + what + ", got " + describe(got));
}

char Lexer::step() {
  const char c = text_[position_++];
  if (c == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
  return c;
}

void Lexer::skip_blank() {
  while (position_ < text_.size()) {
    const char c = at();
    if (c == '#' || (c == '/' && at(1) == '/')) {
      while (position_ < text_.size() && at() != '\n') step();
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      step();
    } else {
      return;
    }
  }
}

void Lexer::lex_string() {
  step();
  while (position_ < text_.size() && at() != '"' && at() != '\n') {
    char c = step();
    if (c == '\\') {
      if (position_ == text_.size()) break;
      c = step();
      if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      } else if (c == 'x') {
        int code = 0;
        const std::string_view digits = text_.substr(position_, 2);
        const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16).ptr;
        if (digits.size() != 2 || end != digits.data() + 2) fail(token_, "expected two hexadecimal digits after \\x");
        position_ += 2;
        column_ += 2;
        c = static_cast<char>(code);
      } else if (c != '"' && c != '\\') {
        fail(token_, "unknown escape in a string");
      }
    }
    token_.text += c;
  }
  if (at() != '"' || position_ == text_.size()) fail(token_, "expected '\"' at the end of the string");
  step();
}

void Lexer::advance() {
  skip_blank();
  token_ = Token{Token::Kind::end, "", line_, column_};
  if (position_ == text_.size()) return;
  const char c = at();
  if (c == '"') {
    token_.kind = Token::Kind::string;
    lex_string();
  } else if (c == '%' || c == '@') {
    step();
    token_.kind = c == '%' ? Token::Kind::value : Token::Kind::region;
    if (c == '@' && at() == '"') {
      lex_string();
      return;
    }
    while (position_ < text_.size() && is_name(at())) token_.text += step();
    if (token_.text.empty()) fail(token_, std::string("expected a name after '") + c + "'");
  } else if (is_digit(c)) {
    token_.kind = Token::Kind::number;
    const bool hex = c == '0' && at(1) == 'x';
    while (is_digit(at()) || is_letter(at()) || at() == '.') {
      const char digit = step();
      token_.text += digit;
      if (!hex && digit == 'e' && (at() == '+' || at() == '-')) token_.text += step();
    }
  } else if (is_letter(c)) {
    token_.kind = Token::Kind::word;
    while (is_letter(at()) || is_digit(at())) token_.text += step();
  } else {
    token_.kind = Token::Kind::punctuation;
    token_.text = step();
  }
}

Token Lexer::take() {
  Token taken = std::move(token_);
  advance();
  return taken;
}

bool Lexer::accept(char c) {
  if (!is(c)) return false;
  advance();
  return true;
}

bool Lexer::accept(std::string_view word) {
  if (!is(Token::Kind::word, word)) return false;
  advance();
  return true;
}

void Lexer::expect(char c) {
  if (!accept(c)) expected(std::string("'") + c + "'");
}

void Lexer::expect(std::string_view word) {
  if (!accept(word)) expected("'" + std::string(word) + "'");
}

Token Lexer::expect(Token::Kind kind, const std::string& what) {
  if (token_.kind != kind) expected(what);
  return take();
}

int64_t Lexer::integer(const std::string& what, int64_t lo, int64_t hi) {
  const Token start = token_;
  std::string digits;
  if (accept('-')) digits = "-";
  if (token_.kind != Token::Kind::number) expected(what);
  const Token number = take();
  digits += number.text;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) fail(start, "expected " + what + " that fits, got " + digits);
  if (error != std::errc() || end != digits.data() + digits.size()) expected(what, number);
  if (value < lo || value > hi) {
    fail(start, "expected " + what + " from " + std::to_string(lo) + " to " + std::to_string(hi) + ", got " + digits);
  }
  return value;
}

}  // namespace appy::ir
