-- Functions of GoogleSQL as macros of DuckDB: a call F(x) is written as bq_f(x), SAFE.F(x) as bq_safe_f(x). A scalar
-- function that has no macro here, or none with so many arguments, is refused, unless function_generator.py writes it.
-- The macros own_… are helpers.

-- Evaluated, these fail with BigQuery's error or as not supported. They can stand for a value of any type. The reason
-- for list_resize: a COALESCE leaves out an argument that DuckDB knows to be always NULL. DuckDB's own error() is not
-- used: it counts as a side effect, and DuckDB does not sort or group by a column that has one.
CREATE MACRO own_fail(message) AS (list_resize([NULL], CAST(concat('stand-in:failed:', message) AS BIGINT)))[1];
CREATE MACRO own_refuse(construct) AS (list_resize([NULL], CAST(concat('stand-in:refused:', construct) AS BIGINT)))[1];

-- The types of values are known only at run time. Each type converts to text, so that each branch of a CASE binds.
CREATE MACRO own_is_numeric(x) AS typeof(x) LIKE 'DECIMAL%';
CREATE MACRO own_is_nan(x) AS typeof(x) IN ('DOUBLE', 'FLOAT') AND CAST(x AS VARCHAR) = 'nan';
CREATE MACRO own_to_bytes(x) AS
    CASE WHEN typeof(x) = 'BLOB' THEN CAST(CAST(x AS VARCHAR) AS BLOB) ELSE encode(CAST(x AS VARCHAR)) END;

-- Numbers. In DuckDB a product of NUMERIC has the decimal digits of both factors; BigQuery rounds it to nine, halves
-- away from zero. Products of other types are rounded to 400 digits, which does not change them.
CREATE MACRO own_multiply(a, b) AS round(a * b, CASE WHEN typeof(a * b) LIKE 'DECIMAL%' THEN 9 ELSE 400 END);
CREATE MACRO own_quotient(a, b, at_zero) AS
    CASE WHEN own_is_numeric(a) OR own_is_numeric(b) THEN own_refuse('division of NUMERIC')
    WHEN b = 0 THEN at_zero ELSE CAST(a AS DOUBLE) / CAST(b AS DOUBLE) END;
CREATE MACRO own_divide(a, b) AS
    own_quotient(a, b, own_fail('division by zero: ' || CAST(a AS VARCHAR) || ' / ' || CAST(b AS VARCHAR)));
CREATE MACRO own_float(name, x, result) AS
    CASE WHEN own_is_numeric(x) THEN own_refuse(name || ' of NUMERIC') ELSE result END;
CREATE MACRO bq_abs(x) AS abs(x);
CREATE MACRO bq_ceil(x) AS own_float('CEIL', x, ceil(CAST(x AS DOUBLE)));
CREATE MACRO bq_div(a, b) AS
    CASE WHEN own_is_numeric(a) OR own_is_numeric(b) THEN own_refuse('DIV of NUMERIC') ELSE a // b END;
CREATE MACRO bq_floor(x) AS own_float('FLOOR', x, floor(CAST(x AS DOUBLE)));
CREATE MACRO bq_is_inf(x) AS isinf(CAST(x AS DOUBLE));
CREATE MACRO bq_is_nan(x) AS isnan(CAST(x AS DOUBLE));
CREATE MACRO bq_mod(a, b) AS (a % b);
CREATE MACRO bq_round
    (x) AS own_float('ROUND', x, round(CAST(x AS DOUBLE))),
    (x, digits) AS own_float('ROUND', x, round(CAST(x AS DOUBLE), CAST(digits AS INTEGER)));
CREATE MACRO bq_safe_divide(a, b) AS own_quotient(a, b, NULL);
CREATE MACRO bq_trunc
    (x) AS own_float('TRUNC', x, trunc(CAST(x AS DOUBLE))),
    (x, digits) AS own_refuse('TRUNC with digits');

-- Conversions: own_to_… as CAST. BigQuery prints whole FLOAT64 numbers without a point, and
-- others with fifteen digits if these identify the number, else with seventeen; zero has no sign.
CREATE MACRO own_float_text(x) AS
    CASE WHEN x = 0 THEN '0' WHEN CAST(printf('%.15g', x) AS DOUBLE) = x THEN printf('%.15g', x)
    ELSE printf('%.17g', x) END;
-- A fraction of a second has three or six digits.
CREATE MACRO own_filled(digits) AS rpad(digits, CASE WHEN length(digits) <= 3 THEN 3 ELSE 6 END, '0');
CREATE MACRO own_text(x, text, decoded) AS
    CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN own_float_text(TRY_CAST(text AS DOUBLE))
    WHEN own_is_numeric(x) THEN regexp_replace(regexp_replace(text, '(\.\d*?)0+$', '\1'), '\.$', '')
    WHEN typeof(x) IN ('TIMESTAMP WITH TIME ZONE', 'TIMESTAMP')
    THEN regexp_replace(text, '\.\d+', '.' || own_filled(regexp_extract(text, '\.(\d+)', 1)))
    WHEN typeof(x) = 'BLOB' THEN decoded
    WHEN typeof(x) LIKE 'STRUCT%' OR typeof(x) LIKE '%[]' THEN own_refuse('CAST of ARRAY or STRUCT AS STRING')
    ELSE text END;
CREATE MACRO own_to_string(x) AS own_text(x, CAST(x AS VARCHAR), decode(CAST(CAST(x AS VARCHAR) AS BLOB)));
-- Text must be a whole number, decimal or hexadecimal, also with a sign. Halves are rounded away from zero.
CREATE MACRO own_is_integer(text) AS regexp_full_match(text, '\s*[+-]?([0-9]+|0[xX][0-9a-fA-F]+)\s*');
CREATE MACRO own_unsigned_hex(text) AS regexp_replace(trim(text), '[+-](0[xX])', '\1');
CREATE MACRO own_sign_of_hex(text) AS CASE WHEN regexp_matches(text, '-0[xX]') THEN -1 ELSE 1 END;
CREATE MACRO own_to_int64(x) AS
    CASE WHEN typeof(x) = 'VARCHAR' THEN
        CASE WHEN NOT own_is_integer(CAST(x AS VARCHAR)) THEN own_fail('Bad int64 value: ' || CAST(x AS VARCHAR))
        ELSE CAST(own_unsigned_hex(CAST(x AS VARCHAR)) AS BIGINT) * own_sign_of_hex(CAST(x AS VARCHAR)) END
    WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN CAST(round(TRY_CAST(CAST(x AS VARCHAR) AS DOUBLE)) AS BIGINT)
    WHEN own_is_numeric(x) THEN CAST(round(TRY_CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 9))) AS BIGINT)
    ELSE CAST(x AS BIGINT) END;
CREATE MACRO own_is_no_bool(x) AS typeof(x) = 'VARCHAR' AND lower(CAST(x AS VARCHAR)) NOT IN ('true', 'false');
CREATE MACRO own_to_bool(x) AS
    CASE WHEN own_is_no_bool(x) THEN own_fail('Bad bool value: ' || CAST(x AS VARCHAR)) ELSE CAST(x AS BOOLEAN) END;
CREATE MACRO bq_string
    (x) AS own_to_string(x),
    (x, zone) AS own_refuse('STRING with a time zone');

-- Text and bytes.
CREATE MACRO bq_byte_length(x) AS octet_length(own_to_bytes(x));
CREATE MACRO bq_char_length(x) AS length(x);
CREATE MACRO bq_length(x) AS
    CASE WHEN typeof(x) = 'BLOB' THEN octet_length(own_to_bytes(x)) ELSE length(CAST(x AS VARCHAR)) END;
CREATE MACRO bq_ends_with(x, y) AS ends_with(x, y);
CREATE MACRO bq_from_base64(x) AS from_base64(x);
CREATE MACRO bq_from_hex(x) AS unhex(x);
CREATE MACRO bq_lower(x) AS lower(x);
CREATE MACRO own_not_negative(name, n, result) AS
    CASE WHEN n < 0 THEN own_fail('Second argument in ' || name || '() cannot be negative') ELSE result END;
CREATE MACRO bq_lpad
    (x, n) AS own_not_negative('LPAD', n, lpad(x, CAST(n AS INTEGER), ' ')),
    (x, n, pattern) AS own_not_negative('LPAD', n, lpad(x, CAST(n AS INTEGER), pattern));
CREATE MACRO bq_rpad
    (x, n) AS own_not_negative('RPAD', n, rpad(x, CAST(n AS INTEGER), ' ')),
    (x, n, pattern) AS own_not_negative('RPAD', n, rpad(x, CAST(n AS INTEGER), pattern));
CREATE MACRO bq_ltrim
    (x) AS regexp_replace(x, '^[\s\pZ]+', ''),
    (x, characters) AS ltrim(x, characters);
CREATE MACRO bq_rtrim
    (x) AS regexp_replace(x, '[\s\pZ]+$', ''),
    (x, characters) AS rtrim(x, characters);
CREATE MACRO bq_trim
    (x) AS regexp_replace(x, '^[\s\pZ]+|[\s\pZ]+$', '', 'g'),
    (x, characters) AS trim(x, characters);
CREATE MACRO bq_md5(x) AS unhex(md5(own_to_bytes(x)));
CREATE MACRO bq_regexp_contains(x, pattern) AS regexp_matches(x, pattern);
CREATE MACRO bq_regexp_replace(x, pattern, y) AS regexp_replace(x, pattern, y, 'g');
CREATE MACRO bq_repeat(x, n) AS own_not_negative('REPEAT', n, repeat(x, n));
CREATE MACRO bq_replace(x, old, new) AS CASE WHEN old = '' THEN x ELSE replace(x, old, new) END;
CREATE MACRO bq_reverse(x) AS reverse(x);
CREATE MACRO bq_sha256(x) AS unhex(sha256(own_to_bytes(x)));
CREATE MACRO bq_split
    (x) AS string_split(x, ','),
    (x, delimiter) AS string_split(x, delimiter);
CREATE MACRO bq_starts_with(x, y) AS starts_with(x, y);
CREATE MACRO bq_strpos(x, y) AS strpos(x, y);
CREATE MACRO bq_to_base64(x) AS to_base64(x);
CREATE MACRO bq_to_hex(x) AS lower(hex(x));
CREATE MACRO bq_upper(x) AS upper(x);
-- DuckDB's array_slice would cut arrays, too.
CREATE MACRO own_size(x) AS
    CASE WHEN typeof(x) LIKE '%]'
    THEN own_fail('No matching signature for a function of STRING or BYTES: ' || typeof(x))
    ELSE bq_length(x) END;
-- The position of the first character; a negative one counts from the end.
CREATE MACRO own_first(x, position) AS
    CASE WHEN position > 0 THEN position WHEN position = 0 OR -(position) >= own_size(x) THEN 1
    ELSE own_size(x) + position + 1 END;
-- `least` and `array_slice` ignore NULL. A NULL literal has no type: the branch with '' makes the result a STRING.
CREATE MACRO bq_substr
    (x, position) AS CASE WHEN FALSE THEN '' WHEN x IS NULL OR position IS NULL THEN NULL
        ELSE array_slice(x, own_first(x, position), own_size(x)) END,
    (x, position, n) AS CASE WHEN FALSE THEN '' WHEN x IS NULL OR position IS NULL OR n IS NULL THEN NULL
        WHEN n < 0 THEN own_fail('Third argument in SUBSTR() cannot be negative')
        ELSE array_slice(x, own_first(x, position), own_first(x, position) - 1 + least(n, own_size(x))) END;

-- FORMAT: only %e with a precision. BigQuery writes NaN and negative zero without a sign.
CREATE MACRO own_scientific(element, x) AS
    CASE WHEN isnan(x) THEN 'nan' WHEN x = 0 THEN printf(element, 0.0::DOUBLE) ELSE printf(element, x) END;
CREATE MACRO bq_format(template, x) AS
    CASE WHEN NOT regexp_full_match(template, '%\.\d{1,2}e') OR typeof(x) <> 'DOUBLE'
    THEN own_refuse('FORMAT with ' || template || ' of ' || typeof(x))
    ELSE own_scientific(template, TRY_CAST(CAST(x AS VARCHAR) AS DOUBLE)) END;

-- DuckDB's JSON is BigQuery's, except that of these types and of long integers, which BigQuery quotes.
CREATE MACRO own_json(x, json) AS
    CASE WHEN regexp_matches(typeof(x), 'DOUBLE|FLOAT|DECIMAL|TIMESTAMP|BLOB|TIME|HUGEINT')
    OR regexp_matches(json, '[0-9]{16,}')
    THEN own_refuse('TO_JSON_STRING of other values than STRING, BOOL, DATE and INT64 of 15 digits')
    ELSE coalesce(json, 'null') END;
CREATE MACRO bq_to_json_string
    (x) AS own_json(x, CAST(to_json(x) AS VARCHAR)),
    (x, pretty) AS own_refuse('TO_JSON_STRING with pretty printing');

-- Arrays, and values of any type.
CREATE MACRO own_safe_element(x, place) AS CASE WHEN place < 1 OR place > len(x) THEN NULL ELSE x[place] END;
CREATE MACRO own_element(x, place) AS
    CASE WHEN place < 1 OR place > len(x) THEN own_fail('Array index ' || CAST(place AS VARCHAR) || ' is out of bounds')
    ELSE x[place] END;
CREATE MACRO bq_array_concat(x, y) AS x || y;
CREATE MACRO bq_array_length(x) AS len(x);
CREATE MACRO bq_array_to_string
    (x, delimiter) AS array_to_string(x, delimiter),
    (x, delimiter, null_text) AS array_to_string(list_transform(x, lambda e: coalesce(e, null_text)), delimiter);
CREATE MACRO bq_generate_array
    (first, last) AS generate_series(first, last),
    (first, last, step) AS CASE WHEN step = 0 THEN own_fail('Sequence step cannot be 0.')
        ELSE generate_series(first, last, step) END;
CREATE MACRO bq_error(message) AS own_fail(message);
CREATE MACRO bq_ifnull(x, y) AS coalesce(x, y);
CREATE MACRO bq_nullif(x, y) AS nullif(x, y);

-- Dates and times, in UTC. DuckDB converts from more types than BigQuery does, so values of those are refused.
CREATE MACRO own_in_utc(x, zone) AS
    CASE WHEN upper(zone) IN ('UTC', 'ETC/UTC', '+00:00', '') THEN x ELSE own_refuse('time zone ' || zone) END;
CREATE MACRO own_date(x) AS
    CASE WHEN typeof(x) LIKE 'TIMESTAMP%' THEN own_refuse('DATE function of a TIMESTAMP or DATETIME')
    ELSE CAST(x AS DATE) END;
CREATE MACRO own_timestamp(x) AS
    CASE WHEN typeof(x) = 'TIMESTAMP' THEN own_refuse('TIMESTAMP function of a DATETIME')
    ELSE CAST(x AS TIMESTAMPTZ) END;
CREATE MACRO bq_date
    (x) AS CAST(x AS DATE),
    (x, zone) AS own_in_utc(CAST(x AS DATE), zone),
    (year, month, day) AS own_refuse('DATE of 3 arguments');
CREATE MACRO bq_datetime
    (x) AS CAST(x AS TIMESTAMP),
    (x, zone) AS own_refuse('DATETIME of 2 arguments'),
    (year, month, day, hour, minute, second) AS own_refuse('DATETIME of 6 arguments');
CREATE MACRO bq_timestamp
    (x) AS CAST(x AS TIMESTAMPTZ),
    (x, zone) AS own_in_utc(CAST(x AS TIMESTAMPTZ), zone);
CREATE MACRO bq_unix_date(x) AS date_diff('day', DATE '1970-01-01', CAST(x AS DATE));
CREATE MACRO bq_unix_micros(x) AS
    CASE WHEN typeof(x) IN ('TIMESTAMP', 'DATE')
    THEN own_fail('No matching signature for function UNIX_MICROS: argument is no TIMESTAMP')
    ELSE epoch_us(CAST(x AS TIMESTAMPTZ)) END;

CREATE MACRO own_interval(n, unit) AS
    CASE unit WHEN 'microsecond' THEN to_microseconds(CAST(n AS BIGINT))
    WHEN 'millisecond' THEN to_milliseconds(CAST(n AS BIGINT))
    WHEN 'second' THEN to_seconds(CAST(n AS BIGINT))
    WHEN 'minute' THEN to_minutes(CAST(n AS BIGINT))
    WHEN 'hour' THEN to_hours(CAST(n AS BIGINT))
    WHEN 'day' THEN to_days(CAST(n AS INTEGER))
    WHEN 'month' THEN to_months(CAST(n AS INTEGER))
    WHEN 'quarter' THEN to_months(CAST(n * 3 AS INTEGER))
    ELSE to_months(CAST(n * 12 AS INTEGER)) END;
CREATE MACRO bq_date_add(x, n, unit) AS CAST(own_date(x) + own_interval(n, unit) AS DATE);
CREATE MACRO bq_date_sub(x, n, unit) AS CAST(own_date(x) - own_interval(n, unit) AS DATE);
CREATE MACRO bq_date_diff(later, earlier, part) AS date_diff(part, own_date(earlier), own_date(later));
CREATE MACRO bq_date_trunc(x, part) AS CAST(date_trunc(part, own_date(x)) AS DATE);
CREATE MACRO bq_timestamp_add(x, n, unit) AS CAST(own_timestamp(x) + own_interval(n, unit) AS TIMESTAMPTZ);
CREATE MACRO bq_timestamp_sub(x, n, unit) AS CAST(own_timestamp(x) - own_interval(n, unit) AS TIMESTAMPTZ);
-- A difference of DATEs counts boundaries of units, that of TIMESTAMPs whole units.
CREATE MACRO bq_timestamp_diff(later, earlier, part) AS date_sub(part, own_timestamp(earlier), own_timestamp(later));
CREATE MACRO bq_timestamp_trunc(x, part) AS CAST(date_trunc(part, own_timestamp(x)) AS TIMESTAMPTZ);
-- DuckDB reads formats before it evaluates a CASE around them, so they must be valid in any case.
CREATE MACRO own_parse_format(format) AS CASE format WHEN '%Y%m%d' THEN format ELSE '%Y-%m-%d' END;
CREATE MACRO own_if_parsed(format, result) AS
    CASE WHEN format NOT IN ('%F', '%Y-%m-%d', '%Y%m%d') THEN own_refuse('PARSE_DATE with the format ' || format)
    ELSE CAST(result AS DATE) END;
CREATE MACRO bq_parse_date(format, x) AS own_if_parsed(format, strptime(x, own_parse_format(format)));
CREATE MACRO bq_safe_parse_date(format, x) AS own_if_parsed(format, TRY(strptime(x, own_parse_format(format))));
CREATE MACRO own_is_format(format) AS regexp_full_match(format, '([^%]|%[YmdF])*');
CREATE MACRO own_format(format) AS
    CASE WHEN own_is_format(format) THEN replace(format, '%F', '%Y-%m-%d') ELSE '%Y' END;
CREATE MACRO bq_format_date(format, x) AS
    CASE WHEN NOT own_is_format(format) THEN own_refuse('FORMAT_DATE with the format ' || format)
    ELSE strftime(own_date(x), own_format(format)) END;
