SELECT visited_on, store_code, visitors
FROM {{ staging }} AS visits
WHERE visits.visitors < 0
ORDER BY visited_on, store_code
