// C++'s standard library: containers, strings, streams, locales, regular expressions, numbers.
#include "library.h"

#include <algorithm>
#include <any>
#include <array>
#include <bitset>
#include <charconv>
#include <complex>
#include <deque>
#include <forward_list>
#include <functional>
#include <iomanip>
#include <iostream>
#include <list>
#include <locale>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <valarray>
#include <variant>
#include <vector>

using namespace std::string_literals;

namespace {

template <typename... T> std::string text(const T &...parts) {
    std::ostringstream stream;
    (stream << ... << parts);
    return stream.str();
}

void containers() {
    std::unordered_map<std::string, int> counts;
    for (int number = 0; number < 10000; number++)
        counts["key " + std::to_string(number % 1000)]++;
    CHECK(counts.size() == 1000 && counts["key 7"] == 10 && !counts.count("key 1000"));
    std::map<std::string, int> sorted(counts.begin(), counts.end());
    CHECK(sorted.begin()->first == "key 0" && sorted.rbegin()->first == "key 999");
    std::deque<int> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937(1));
    CHECK(numbers[0] != 0 || numbers[1] != 1 || numbers[2] != 2);
    std::stable_sort(numbers.begin(), numbers.end());
    CHECK(std::accumulate(numbers.begin(), numbers.end(), 0) == 499500 && numbers[999] == 999);
    std::priority_queue<int> queue(std::less<int>(), {3, 9, 4});
    CHECK(queue.top() == 9);
    std::unordered_set<std::string_view> words{"a", "b", "a"};
    CHECK(words.size() == 2);
    std::list<int> list{5, 1, 4};
    list.sort();
    CHECK((list == std::list<int>{1, 4, 5}));
    std::variant<int, std::string> either = "text"s;
    CHECK(std::get<std::string>(either) == "text" && std::get_if<int>(&either) == nullptr);
    std::any anything = 2.5;
    CHECK(std::any_cast<double>(anything) == 2.5);
    std::optional<int> nothing;
    CHECK(nothing.value_or(3) == 3);
    std::function<int(int)> add = [base = 40](int number) { return base + number; };
    CHECK(add(2) == 42 && std::bitset<8>("1011").count() == 3);
    std::valarray<double> values{1, 2, 3};
    CHECK((values * values).sum() == 14);
    CHECK(std::abs(std::complex<double>(3, 4)) == 5);
    auto [one, two] = std::make_tuple(1, "two"s);
    CHECK(one == 1 && two == "two");
}

void streams() {
    CHECK(text(42, ' ', 2.5, ' ', true, ' ', "text"s) == "42 2.5 1 text");
    CHECK(text(std::hex, std::showbase, 255, std::setw(8), std::setfill('.'), 16) ==
          "0xff....0x10");
    CHECK(text(std::fixed, std::setprecision(3), 3.14159265) == "3.142");
    CHECK(text(std::scientific, 12345.678L) == "1.234568e+04");
    CHECK(text(1e300 * 1e10, ' ', -0.0, ' ', std::boolalpha, false) == "inf -0 false");
    CHECK(text(-9223372036854775807LL - 1, ' ', 18446744073709551615ULL) ==
          "-9223372036854775808 18446744073709551615");
    CHECK(text(std::hexfloat, 1.5) == "0x1.8p+0");
    CHECK(text(std::put_money(1234)) == "1234" && text(std::quoted("a\"b")) == "\"a\\\"b\"");
    std::istringstream input("12 0x1f 2.5e3 word \"quoted one\"\nline two\n");
    int decimal = 0, hexadecimal = 0;
    double real = 0;
    std::string word, quoted, line;
    input >> decimal >> std::hex >> hexadecimal >> real >> word >> std::quoted(quoted);
    CHECK(decimal == 12 && hexadecimal == 31 && real == 2500 && word == "word");
    CHECK(quoted == "quoted one" && input.get() == '\n');
    CHECK(std::getline(input, line) && line == "line two" && !std::getline(input, line));
    input.clear();
    input.str("x");
    CHECK(!(input >> decimal) && decimal == 0 && input.fail());
    std::wostringstream wide;
    wide << L"grüße " << 7 << L' ' << 1.5;
    CHECK(wide.str() == L"grüße 7 1.5");
    std::ios_base::sync_with_stdio(false);
    std::cout << "cout: " << std::setw(5) << 7 << std::endl;
    std::cerr << "cerr: " << 8 << '\n';
    std::clog << "clog: " << 9 << std::endl;
    CHECK(std::cout.good());
    try {
        std::istringstream empty;
        empty.exceptions(std::ios::failbit);
        empty >> decimal;
        CHECK(!"no exception");
    } catch (const std::ios_base::failure &) {
    }
}

struct Grouped : std::numpunct<char> {
    char do_thousands_sep() const override { return '\''; }
    std::string do_grouping() const override { return "\3"; }
};

void locales() {
    // The user's locale is "C" too, under the name that it was asked for by.
    CHECK(std::locale().name() == "C" && std::locale("").name() == "");
    CHECK(std::use_facet<std::numpunct<char>>(std::locale("")).decimal_point() == '.');
    try {
        std::locale("de_DE");
        CHECK(!"no exception");
    } catch (const std::runtime_error &) {
    }
    std::ostringstream stream;
    stream.imbue(std::locale(std::locale(), new Grouped));
    stream << 1234567;
    CHECK(stream.str() == "1'234'567");
    const auto &kinds = std::use_facet<std::ctype<char>>(std::locale());
    CHECK(kinds.is(std::ctype_base::digit, '7') && kinds.toupper('q') == 'Q');
    CHECK(std::isspace(' ', std::locale()) && !std::isalpha('7', std::locale()));
    std::tm date{};
    std::istringstream input("2026-11-23 16:20:01");
    input >> std::get_time(&date, "%Y-%m-%d %H:%M:%S");
    CHECK(!input.fail() && date.tm_year == 126 && date.tm_mon == 10 && date.tm_sec == 1);
    date.tm_wday = 1;
    CHECK(text(std::put_time(&date, "%A %d %B %Y")) == "Monday 23 November 2026");
}

void expressions() {
    std::regex date("(\\d{4})-(\\d{2})-(\\d{2})");
    std::smatch match;
    std::string line = "from 2026-11-23 to 2027-01-02";
    CHECK(std::regex_search(line, match, date) && match[1] == "2026" && match[3] == "23");
    CHECK(std::regex_replace(line, date, "$3.$2.$1") == "from 23.11.2026 to 02.01.2027");
    int found = 0;
    for (std::sregex_iterator next(line.begin(), line.end(), date), end; next != end; ++next)
        found++;
    CHECK(found == 2);
    CHECK(std::regex_match("FooBar", std::regex("foo[[:alpha:]]+", std::regex::icase)));
    try {
        std::regex wrong("(");
        CHECK(!"no exception");
    } catch (const std::regex_error &error) {
        CHECK(error.code() == std::regex_constants::error_paren);
    }
}

void numbers() {
    CHECK(std::to_string(-17) == "-17" && std::to_string(1.5) == "1.500000");
    CHECK(std::to_wstring(42) == L"42" && std::stoi("0x10", nullptr, 16) == 16);
    CHECK(std::stod("2.5e-3") == 0.0025 && std::stoll("-9000000000") == -9000000000);
    CHECK(std::stold("0.1") == 0.1L && std::stoul(L"77") == 77 && std::stof(L"1.5") == 1.5F);
    try {
        std::stoi("99999999999");
        CHECK(!"no exception");
    } catch (const std::out_of_range &) {
    }
    try {
        std::stoi("word");
        CHECK(!"no exception");
    } catch (const std::invalid_argument &) {
    }
    char digits[20];
    auto written = std::to_chars(digits, digits + sizeof digits, 1234567);
    int number = 0;
    auto taken = std::from_chars(digits, written.ptr, number);
    CHECK(taken.ec == std::errc() && number == 1234567);
    std::mt19937_64 engine;
    engine.discard(9999);
    CHECK(engine() == 9981545732273789042ULL);
    std::uniform_int_distribution<int> dice(1, 6);
    for (int round = 0; round < 1000; round++) {
        int side = dice(engine);
        CHECK(1 <= side && side <= 6);
    }
    std::random_device device;
    unsigned first = device();
    bool differs = false;
    for (int round = 0; round < 8; round++)
        differs |= device() != first;
    CHECK(differs);
    CHECK(std::gcd(12, 18) == 6 && std::hypot(2.0, 3.0, 6.0) == 7);
}

} // namespace

int main() {
    containers();
    streams();
    locales();
    expressions();
    numbers();
    return finish("plusplus-library");
}
